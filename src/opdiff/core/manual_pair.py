"""Pairings declared by the user."""

from __future__ import annotations

import re

from msgspec import Struct

from opdiff.core.tensor import Slot, TensorKey

_KEY = re.compile(r"(.+?)(?::(input|output):([0-9]{1,9}))?")


class ManualPair(Struct, frozen=True):
    """A target tensor, its golden tensor, and the layout of the golden array; empty if it is not declared."""

    target: TensorKey
    golden: TensorKey
    layout: str = ""


def parse_key(text: str) -> TensorKey:
    """Parse `operator:output:0`, `operator:input:1`, or `operator` for its output 0."""
    match = _KEY.fullmatch(text)
    if match is None:
        return TensorKey(text, Slot.OUTPUT, 0)
    name, slot, index = match.groups()
    return TensorKey(name, Slot(slot or "output"), int(index or 0))
