"""Native functions do what their definitions in Python do."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdiff.core import formatting as texts
from opdiff.core.native import DEFINITIONS, NATIVE
from opdiff.report import cells, json_text

if TYPE_CHECKING:
    from pathlib import Path

MODULES = {"json_text": json_text, "number_text": texts, "csv_line": cells, "readable_line": cells}

pytestmark = pytest.mark.skipif(NATIVE is None, reason="the native module was not built")


def twins(name: str) -> tuple[Any, Any]:
    return getattr(NATIVE, name), DEFINITIONS[name]


class Word(StrEnum):
    ONE = "one"


class Point(NamedTuple):
    x: object
    y: object


class Nothing(NamedTuple):
    pass


NUMBERS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.floats(-1, 1)
    | st.integers(-(10**9), 10**9).map(lambda number: number / 1e6)
    | st.decimals(allow_nan=False, allow_infinity=False, places=7, min_value=-10, max_value=10).map(float)
)
# Surrogates are how Python has what is not text in the names of files.
TEXTS = st.text(st.characters()) | st.sampled_from([Word.ONE, "a,b", 'a"b', "a\r\nb", "\udc80x", "\U0001f600", "\x7f"])
VALUES = st.recursive(
    NUMBERS | TEXTS | st.builds(Nothing),
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(TEXTS, inner) | st.builds(Point, inner, inner)
    ),
    max_leaves=12,
)


def test_all_are_in_use() -> None:
    assert set(DEFINITIONS) == set(MODULES)
    for name, module in MODULES.items():
        native, definition = twins(name)
        assert getattr(module, name) is native is not definition


@given(VALUES)
def test_json(value: object) -> None:
    native, definition = twins("json_text")
    assert native(value) == definition(value)


@pytest.mark.parametrize("value", [b"bytes", object(), (1, {2}), {"a": [Ellipsis]}, {1: 2}, {None: 1}])
def test_json_refuses_what_it_does_not_have(value: object) -> None:
    for text in twins("json_text"):
        with pytest.raises(TypeError):
            text(value)


def test_json_of_endless_nesting_is_an_error() -> None:
    endless: list[object] = []
    endless.append(endless)
    for text in twins("json_text"):
        with pytest.raises(RecursionError):
            text(endless)


def test_json_of_a_named_tuple_that_lost_a_value_is_an_error() -> None:
    for text in twins("json_text"):
        with pytest.raises(ValueError, match=r"field|zip"):
            text(tuple.__new__(Point, (1,)))


@pytest.mark.parametrize("fields", [(1, 2), ["x", "y"], None])
def test_json_of_a_tuple_with_strange_fields_is_an_error_and_no_more(fields: object) -> None:
    strange = type("Strange", (tuple,), {"_fields": fields})((1, 2))
    native, _ = twins("json_text")
    for value in (strange, [strange]):
        with pytest.raises(TypeError, match="no proper names"):
            native(value)


@given(NUMBERS)
def test_numbers(value: float | None) -> None:
    native, definition = twins("number_text")
    assert native(value) == definition(value)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8, np.int64, np.uint64])
def test_numbers_of_numpy(kind: type[np.number[Any]]) -> None:
    native, definition = twins("number_text")
    for value in (0, 1, 3, 100):
        assert native(kind(value)) == definition(kind(value))
    for text in twins("number_text"):
        with pytest.raises(TypeError):
            text("1")


@pytest.mark.parametrize("power", range(-330, 310))
def test_numbers_of_every_size(power: int) -> None:
    native, definition = twins("number_text")
    as_json, as_json_definition = twins("json_text")
    for digits in ("1", "-1", "9.99999949999", "9.9999995", "1.2345675", "5"):
        value = float(f"{digits}e{power}")
        for near in (value, math.nextafter(value, math.inf), math.nextafter(value, -math.inf)):
            assert native(near) == definition(near)
            assert as_json(near) == as_json_definition(near)


@given(st.lists(TEXTS | NUMBERS) | st.lists(TEXTS).map(tuple))
def test_lines(line: list[object]) -> None:
    native, definition = twins("csv_line")
    assert native(line) == definition(line)


FORMULAS = (
    "=1+1", " =1", "a;=1", "a; -1", "a\n=1", "-1.5", "\uff1d1", "\t", "(1;2),(-3;4)", "[1,2]", "/a;b", "", "@", "%",
)  # fmt: skip


@given(st.lists(TEXTS | NUMBERS | st.sampled_from(FORMULAS) | st.text("=+-%@;a1 \n\r(,")))
def test_readable_lines(line: list[Any]) -> None:
    native, definition = twins("readable_line")
    assert native(line, cells.harmless) == definition(line, cells.harmless)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_lines_with_numbers_of_numpy(kind: type[np.number[Any]]) -> None:
    for line in twins("csv_line"):
        assert line([kind(1), kind(100)]) == (b"1,100\r\n" if kind is np.int64 else b"1.0,100.0\r\n")


def test_a_table_of_fields_is_a_tuple() -> None:
    assert NATIVE is not None
    with pytest.raises(SystemError, match="argument"):
        NATIVE.message_table([])


@pytest.mark.parametrize("content", [b"", b"not native code", b"\x7fELF" + bytes(60)], ids=["empty", "text", "cut off"])
def test_a_module_that_cannot_be_loaded_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "_native.abi3.so").write_bytes(content)
    assert _native_of(f"import opdiff; opdiff.__path__.insert(0, {str(tmp_path)!r})") == "None"


@pytest.mark.parametrize("version", [None, 0, 1_000_000])
def test_a_module_of_other_sources_is_none(version: int | None) -> None:
    other = f"import sys, types; sys.modules['opdiff._native'] = types.SimpleNamespace(VERSION={version})"
    assert _native_of(other) == "None"
    assert _native_of("pass") != "None"


def _native_of(preparation: str) -> str:
    """What there is of native code when a Python that was prepared so reads headers and rules."""
    code = (
        f"{preparation}\nfrom opdiff.read import ascend; from opdiff.read.rules.atc_json import NATIVE; print(NATIVE)"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_environment_can_choose_the_definitions() -> None:
    code = "from opdiff.core.formatting import number_text; print(number_text.__class__.__name__)"
    chosen = [
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | more, capture_output=True, text=True, check=True
        ).stdout.strip()
        for more in ({}, {"OPDIFF_KERNEL": "numpy"})
    ]
    assert chosen == ["builtin_function_or_method", "function"]
