"""Short names of fused operators."""

from __future__ import annotations

import pytest

from opdiff.core.reasons import because
from opdiff.report.short_names import short_name, with_short_names


@pytest.mark.parametrize(
    ("operator", "originals", "short"),
    [
        ("/m/cv2/conv/Conv/m/cv2/act/Mul", ("/m/cv2/conv/Conv", "/m/cv2/act/Mul"), "m/cv2 · Conv + Mul"),
        ("conv1conv1_relu", ("conv1", "conv1_relu"), "conv1 + conv1_relu"),
        ("a/bc/d", ("a/b", "c/d"), "b + d"),
        ("renamed", ("a", "b"), "renamed"),
        ("a", ("a",), "a"),
        ("", ("", ""), ""),
    ],
)
def test_short_name(operator: str, originals: tuple[str, ...], short: str) -> None:
    assert short_name(operator, originals) == short


def test_only_known_operators_of_reasons_are_shortened() -> None:
    names = {"ab": "a + b"}
    assert with_short_names(because("x.y", operator="ab", kind="ab"), names) == because(
        "x.y", operator="a + b", kind="ab"
    )
    assert with_short_names(because("x.y", operator="c"), names) == because("x.y", operator="c")
