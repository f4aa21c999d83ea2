"""Values in columns: packing and unpacking are inverse, and damaged data is rejected."""

from __future__ import annotations

import json
import math
import zlib
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, field

from opdiff.core.reasons import Reason, because
from opdiff.core.tensor import Slot
from opdiff.report.packed_columns import pack_columns, unpack_columns


class Point(Struct, frozen=True):
    x: float
    y: int | None = None


class Place(Struct, frozen=True):
    point: Point | None
    name: str = ""


_facts = st.dictionaries(st.text(max_size=2), st.integers() | st.text(max_size=2), max_size=2)
_reasons = st.builds(lambda code, facts: Reason(code, tuple(facts.items())), st.text(max_size=2), _facts)
_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | _reasons
_values = st.recursive(_scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=8)


@given(st.lists(_values, max_size=20))
def test_unpacking_restores_the_values(values: list[Any]) -> None:
    found = unpack_columns(pack_columns({"values": values}))
    # Compared as strings, since NaN is not equal to itself, and True is equal to 1.
    assert repr(found) == repr({"values": values})


SPECIAL = {
    "negative zero": [0.0, -0.0],
    "NaN and infinities": [math.nan, math.inf, -math.inf, None],
    "64 bits": [2**63 - 1, -(2**63)],
    "more than 64 bits": [2**64, -1],
    "bytes": [255, 128, 0],
    "not UTF-8": ["\udc80", "\ud800"],
    "nothing": [],
    "empty tuples": [(), (), ()],
    "nested reasons": [because("a", why=because("b"), all=(because("c", x=1), because("c", x=2.5))), because("a")],
}


@pytest.mark.parametrize("values", SPECIAL.values(), ids=SPECIAL)
def test_special_values(values: list[Any]) -> None:
    assert repr(unpack_columns(pack_columns({"a": values, "b": values}))) == repr({"a": values, "b": values})


def test_structs_become_objects_with_their_attributes() -> None:
    values = [Place(Point(0.5, 1), Slot.INPUT), Place(None, "b"), Place(Point(2.0))]
    found = unpack_columns(pack_columns({"": values}))[""]
    assert found == [
        SimpleNamespace(point=SimpleNamespace(x=0.5, y=1), name="input"),
        SimpleNamespace(point=None, name="b"),
        SimpleNamespace(point=SimpleNamespace(x=2.0, y=None), name=""),
    ]


class Position(Struct, frozen=True, array_like=True):
    x: float
    y: int | None = field(default=None, name="row")


class Area(Struct, frozen=True, array_like=True):
    first: Position
    last: Position | None = None


@pytest.mark.parametrize("positional", [(), (Area,), (Position,), (Area, Position)])
def test_structs_are_restored_by_name_or_position(positional: tuple[type[Struct], ...]) -> None:
    values = [Area(Position(0.5, 1)), Area(Position(2.0), Position(3.0, 4))]
    found = unpack_columns(pack_columns({"": values}), positional)[""]
    assert {type(value) for value in found} == {tuple if Area in positional else SimpleNamespace}
    assert msgspec.convert(found, list[Area], from_attributes=True) == values


def test_fields_in_another_order_are_restored_by_name() -> None:
    older = msgspec.defstruct("Position", [("row", int), ("x", float)])
    found = unpack_columns(pack_columns({"": [older(7, 0.5)]}), [Position])[""]
    assert msgspec.convert(found, list[Position], from_attributes=True) == [Position(0.5, 7)]


def test_other_classes_are_rejected() -> None:
    with pytest.raises(TypeError, match=r"^list cannot be saved$"):
        pack_columns({"": [[1]]})


def packed(column: object, length: object = 3, strings: object = ("a",), arrays: bytes = b"\0\1\2") -> bytes:
    head = json.dumps({"columns": {"": [length, column]}, "strings": strings}).encode()
    return zlib.compress(len(head).to_bytes(4, "little") + head + arrays)


ARRAY = {"type": "b", "at": 0, "count": 3}
DAMAGED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "its columns are cut, or larger than 1 GiB"),
    "cut": (packed(["none"])[:-1], "its columns are cut, or larger than 1 GiB"),
    "checksum": (packed(["none"])[:-1] + b"?", "its columns are damaged: Error -3"),
    "no document": (zlib.compress(b""), "Expecting value"),
    "other document": (zlib.compress(b"\2\0\0\0[]"), "its columns are damaged: list indices must be"),
    "no columns": (
        zlib.compress(b'\x1d\0\0\0{"columns": 1, "strings": []}'),
        "its columns are damaged: 'int' object has",
    ),
    "length": (packed(["none"], "3"), "its columns are damaged: unsupported operand"),
    "many values": (packed(["none"], 1 << 40), "its columns have more than 67108864 values"),
    "many items": (packed(["tuple", ["int", [1 << 40] * 3], ["none"]]), "its columns have more than 67108864 values"),
    "negative length": (packed(["tuple", ["int", [-1, 1, 1]], ["none"]]), "Stop argument for islice"),
    "kind": (packed(["set", ARRAY]), "its columns are damaged: 'set'"),
    "no content": (packed(["tuple"]), "its columns are damaged: _Decoder._tuples() missing"),
    "type": (packed(["int", ARRAY | {"type": "s"}]), "its columns are damaged: 's'"),
    "too many": (packed(["int", ARRAY], 4), "an array of 4 elements is missing"),
    "offset": (packed(["int", ARRAY | {"at": -1}]), "an array of 3 elements is missing"),
    "behind the end": (packed(["int", ARRAY | {"at": 1}]), "an array of 3 elements is missing"),
    "large integers": (packed(["int", [1, 2]]), "its columns are damaged: one does not have 3 values"),
    "string": (packed(["str", ARRAY]), "its columns are damaged: an index is out of range"),
    "negative string": (packed(["str", ["a", "b", -1]]), "its columns are damaged"),
    "choice": (packed(["mixed", ["int", ARRAY], [["none"]]]), "its columns are damaged: an index is out of range"),
    "code": (
        packed(["reason", ["int", [0, 0, 0]], [[1, [], []]]]),
        "its columns are damaged: the name of a reason or fact is not a string",
    ),
    "field": (packed(["record", [[]], [["none"]]]), "its columns are damaged: unhashable type"),
    "fields": (packed(["record", ["a", "b"], [["none"]]]), "zip() argument 2 is shorter"),
}


@pytest.mark.parametrize(("data", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_columns_are_rejected(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        unpack_columns(data)
    assert str(caught.value).startswith(message)


def test_columns_that_are_too_large_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pack_columns({"": ["a" * 1000]})
    monkeypatch.setattr("opdiff.report.packed_columns._MAX_UNPACKED_NBYTES", 1000)
    with pytest.raises(ValueError, match="larger than 1 GiB"):
        unpack_columns(data)


_changes = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4)


@given(_changes)
def test_any_bytes_are_unpacked_or_rejected(changes: list[tuple[int, int]]) -> None:
    data = bytearray(zlib.decompress(pack_columns({"": [Place(Point(0.5, 1), "a"), because("b", x=(1, "c")), None]})))
    for position, byte in changes:
        data[position % len(data)] = byte
    try:
        unpack_columns(zlib.compress(bytes(data)))
    except ValueError as error:
        assert str(error)
