"""Packed columns are unpacked to the same numbers and strings, in the same way as by the page."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdiff.report.packing import Packer
from opdiff.report.page_text import page_text
from page_data import numbers, unpacked


def same(found: list[float | None], expected: list[float | None]) -> bool:
    return all(
        a == b or (a is not None and b is not None and math.isnan(a) and math.isnan(b))
        for a, b in zip(found, expected, strict=True)
    )


@given(st.lists(st.floats() | st.none()))
def test_exact_columns_keep_every_digit(values: list[float | None]) -> None:
    packer = Packer()
    column = packer.exact(values)
    assert same(numbers(column, unpacked(packer.packed({}))[1]), values)


@given(st.lists(st.floats() | st.none()))
def test_single_precision_columns_keep_six_digits_and_the_magnitude(values: list[float | None]) -> None:
    packer = Packer()
    column = packer.floats(values)
    found = numbers(column, unpacked(packer.packed({}))[1])
    for value, kept in zip(values, found, strict=True):
        if value is None or kept is None or math.isnan(value):
            assert str(value) == str(kept)
        elif abs(value) > 1e-37:
            assert kept == pytest.approx(value, rel=1e-6)
        else:
            assert kept == pytest.approx(value, abs=1e-44)
            assert (kept == 0) == (value == 0)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], "f"),
        ([1.5, -2.0], "f"),
        ([0.0, -0.0, 1.5], "f"),
        ([0.0, 1e-40], "f"),
        ([0.0, 1e-46], "d"),
        ([-1e-46], "d"),
        ([3.4e38, -3.4e38], "f"),
        ([1.0, 3.5e38], "d"),
        ([math.inf, -math.inf, math.nan], "f"),
        ([math.inf, -1e39], "d"),
        ([None, 1.5], "f"),
        ([None, 1e-46], "d"),
        ([1, 10**400], "d"),
        ([None, 10**400], "d"),
    ],
)
def test_columns_use_the_narrowest_type(values: list[float | int | None], kind: str) -> None:
    assert Packer().floats(values)["type"] == kind


@pytest.mark.parametrize(
    ("values", "kind"),
    [([], "b"), ([0, 127, True], "b"), ([-128], "b"), ([128], "h"), ([-129, 5], "h"), ([2**15], "i"), ([2**31], "d")],
)
def test_integers_use_the_narrowest_type(values: list[int], kind: str) -> None:
    assert Packer().integers(values)["type"] == kind


@given(st.lists(st.integers(-(2**31), 2**31 - 1)), st.lists(st.integers(-200, 200)))
def test_integers_stay_exact(large: list[int], small: list[int]) -> None:
    packer = Packer()
    columns = packer.integers(large), packer.integers(small)
    data = unpacked(packer.packed({}))[1]
    assert [numbers(column, data) for column in columns] == [large, small]


def test_huge_integers_become_the_nearest_float() -> None:
    packer = Packer()
    column = packer.integers([2**40, -(10**400)])
    assert numbers(column, unpacked(packer.packed({}))[1]) == [2.0**40, -1.7976931348623157e308]


@given(st.lists(st.text(st.characters())))
def test_equal_strings_are_stored_once(texts: list[str]) -> None:
    packer = Packer()
    column = packer.texts(texts)
    document, data = unpacked(packer.packed({}))
    found = [document["texts"][int(index or 0)] for index in numbers(column, data)]
    assert found == list(map(page_text, texts))
    assert len(document["texts"]) == len(set(texts))


def test_invisible_characters_are_escaped() -> None:
    packer = Packer()
    packer.texts(["conv", "\u202eunes", "a\u200bb", "\ufeffx", "卷积 é 🙂", "\udc80"])
    document, _ = unpacked(packer.packed({}))
    assert document["texts"] == ["conv", "\\u202eunes", "a\\u200bb", "\\ufeffx", "卷积 é 🙂", "\\udc80"]
