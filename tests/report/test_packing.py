"""Packed columns are unpacked to the same numbers and strings, in the same way as by the page."""

from __future__ import annotations

import json
import math
import struct
import zlib
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdiff.core.reasons import Language
from opdiff.report.packing import Packer
from opdiff.report.printable import printable


def unpacked(packed: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the document, its strings in English, and the arrays."""
    data = zlib.decompress(packed)
    (length,) = struct.unpack_from("<I", data)
    document = raw_document(packed)
    texts = [text if isinstance(text, str) else "; ".join(sentences(text, document)) for text in document["texts"]]
    return document | {"texts": texts}, data[4 + length :]


def raw_document(packed: bytes) -> dict[str, Any]:
    """Return the document with encoded strings."""
    data = zlib.decompress(packed)
    (length,) = struct.unpack_from("<I", data)
    document: dict[str, Any] = json.loads(data[4 : 4 + length])
    return document


def sentences(encoded: list[list[Any]], document: dict[str, Any], language: Language = Language.ENGLISH) -> list[str]:
    """Return encoded reasons as sentences."""
    return [_sentence(each, document, language) for each in encoded]


def _sentence(encoded: Any, document: dict[str, Any], language: Language) -> str:
    if isinstance(encoded, str):
        return encoded
    if isinstance(encoded, dict):
        return encoded[language] if language in encoded else "; ".join(sentences(encoded["all"], document, language))
    number, *values = encoded
    template: str = document["templates"][number][list(Language).index(language)]
    return template.format(*(_sentence(value, document, language) for value in values))


def numbers(column: dict[str, Any], data: bytes) -> list[float | None]:
    made = array(column["type"])
    size = column["count"] * made.itemsize
    planes = data[column["at"] : column["at"] + size]
    joined = bytearray(size)
    for plane in range(made.itemsize):
        joined[plane :: made.itemsize] = planes[plane * column["count"] : (plane + 1) * column["count"]]
    made.frombytes(bytes(joined))
    absent = set(column.get("absent", ()))
    return [None if index in absent else value for index, value in enumerate(made)]


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
    assert found == list(map(printable, texts))
    assert len(document["texts"]) == len(set(texts))


def test_invisible_characters_are_escaped() -> None:
    packer = Packer()
    packer.texts(["conv", "\u202eunes", "a\u200bb", "\ufeffx", "卷积 é 🙂", "\udc80"])
    document, _ = unpacked(packer.packed({}))
    assert document["texts"] == ["conv", "\\u202eunes", "a\\u200bb", "\\ufeffx", "卷积 é 🙂", "\\udc80"]
