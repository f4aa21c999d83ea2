"""Tensor keys as users write them."""

from __future__ import annotations

import pytest

from opdiff.core.manual_pair import parse_key
from opdiff.core.tensor import Slot, TensorKey


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a:output:3", TensorKey("a", Slot.OUTPUT, 3)),
        ("a/b:0:input:1", TensorKey("a/b:0", Slot.INPUT, 1)),
        ("a", TensorKey("a", Slot.OUTPUT, 0)),
        ("a:outputs:3", TensorKey("a:outputs:3", Slot.OUTPUT, 0)),
        ("a\nb", TensorKey("a\nb", Slot.OUTPUT, 0)),
    ],
)
def test_parse_key(text: str, key: TensorKey) -> None:
    assert parse_key(text) == key
