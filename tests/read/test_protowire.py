"""Decoder of the wire format: the same results and rejections as Google's protobuf."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from dumpdata_proto import DumpData
from opdiff.core.errors import DumpError
from opdiff.read import protowire
from opdiff.read.ascend import DUMP_DATA, MAX_FIELDS
from opdiff.read.cursor import Cursor
from opdiff.read.protowire import NATIVE, Field, Message, Range, Type, iter_fields

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES = {"OpBuffer": {"buffer_type": "kind"}, "Workspace": {"type": "kind"}}


def outcome(raw: bytes) -> dict[str, Any] | tuple[str, int | None]:
    """Return the values, or the problem and its offset."""
    try:
        return DUMP_DATA.decode(Cursor(raw, "header"))
    except DumpError as error:
        return str(error.problem), error.offset


def ours(raw: bytes) -> dict[str, Any] | None:
    found = outcome(raw)
    return found if isinstance(found, dict) else None


def theirs(raw: bytes) -> Any:
    try:
        return DumpData.FromString(raw)
    except DecodeError:
        return None


def assert_same(values: dict[str, Any], message: Any, raw: bytes) -> None:
    renamed = _NAMES.get(message.DESCRIPTOR.name, {})
    for descriptor in message.DESCRIPTOR.fields:
        name = renamed.get(descriptor.name, descriptor.name)
        expected = getattr(message, descriptor.name)
        if descriptor.type == descriptor.TYPE_MESSAGE:
            if descriptor.is_repeated:
                got = values.get(name, [])
                assert len(got) == len(expected)
                for value, part in zip(got, expected, strict=True):
                    assert_same(value, part, raw)
            else:
                assert_same(values.get(name, {}), expected, raw)
        elif descriptor.type == descriptor.TYPE_BYTES:
            place = values.get(name, Range(0, 0))
            assert raw[place.offset : place.offset + place.nbytes] == expected
        elif descriptor.is_repeated:
            assert values.get(name, []) == list(expected)
        else:
            assert values.get(name, type(expected)()) == expected


def random_tensor(rng: random.Random, *, output: bool) -> dict[str, Any]:
    tensor: dict[str, Any] = {
        "data_type": rng.choice([0, 1, 2, 27, 99, -1, 2**31 - 1]),
        "format": rng.randrange(60),
        "shape": {"dim": [rng.choice([0, 1, 3, 2**40, 2**64 - 1]) for _ in range(rng.randrange(6))]},
        "data": rng.randbytes(rng.randrange(9)),
        "size": rng.choice([0, 8, 2**63]),
        "original_shape": {"dim": [rng.randrange(300) for _ in range(rng.randrange(5))]},
        "sub_format": rng.choice([0, 1, 4, -5]),
        "address": rng.getrandbits(64),
        "arg_index": rng.getrandbits(32),
    }
    if output:
        tensor["original_op"] = {"name": "conv/Ü", "output_index": 3, "data_type": 1, "format": 2}
        tensor["dim_range"] = [{"dim_start": 1, "dim_end": 2}] * rng.randrange(3)
    return tensor


def random_header(rng: random.Random, *, embedded: bool = True) -> bytes:
    """Draw a header; the old form has `embedded` data."""
    message = DumpData(
        version=rng.choice(["", "2.0"]),
        dump_time=rng.getrandbits(64),
        output=[random_tensor(rng, output=True) for _ in range(rng.randrange(4))],
        input=[random_tensor(rng, output=False) for _ in range(rng.randrange(4))],
        buffer=[{"buffer_type": rng.randrange(2), "size": 7, "data": b"xy"}] * rng.randrange(2),
        op_name="net/conv.1",
        attr=[{"name": "a", "value": '{"threadMode": 1}'}] * rng.randrange(3),
        space=[{"type": 0, "size": 4, "arg_index": 9}] * rng.randrange(2),
        dfx_message=rng.choice(["", "text"]),
    )
    for item in () if embedded else (*message.output, *message.input, *message.buffer):
        item.ClearField("data")
    raw: bytes = message.SerializeToString()
    return raw


def cut(rng: random.Random, raw: bytearray) -> None:
    del raw[rng.randrange(len(raw) + 1) :]


def flip(rng: random.Random, raw: bytearray) -> None:
    for _ in range(rng.randint(1, 3)):
        raw[rng.randrange(len(raw))] = rng.randrange(256)


def insert(rng: random.Random, raw: bytearray) -> None:
    place = rng.randrange(len(raw) + 1)
    raw[place:place] = rng.choice(
        [rng.randbytes(3), b"\x7b\x7c", b"\xfb\x01\xfc\x01", b"\xff" * 9 + b"\x01", b"\x2d1234"]
    )


@pytest.mark.parametrize("damage", [None, cut, flip, insert], ids=["whole", "cut", "flipped", "inserted"])
def test_result_equals_protobuf(damage: Callable[[random.Random, bytearray], None] | None) -> None:
    rng = random.Random(20)
    accepted = rejected = 0
    for _ in range(2500):
        raw = bytearray(random_header(rng))
        if damage is not None:
            damage(rng, raw)
        header = bytes(raw)
        message, values = theirs(header), ours(header)
        assert (values is None) == (message is None), header.hex()
        if values is None:
            rejected += 1
        else:
            accepted += 1
            assert_same(values, message, header)
    assert accepted
    assert bool(rejected) == (damage is not None)


@pytest.mark.parametrize("damage", [cut, flip, insert], ids=["cut", "flipped", "inserted"])
def test_native_decoder_equals_python(
    damage: Callable[[random.Random, bytearray], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(21)
    headers = [bytearray(random_header(rng, embedded=bool(number % 5))) for number in range(2500)]
    for raw in headers[500:]:
        damage(rng, raw)
    by_both = [outcome(bytes(raw)) for raw in headers]
    monkeypatch.setattr(protowire, "NATIVE", None)
    assert by_both == [outcome(bytes(raw)) for raw in headers]


@pytest.mark.skipif(NATIVE is None, reason="the native module was not built")
def test_native_decoder_accepts_standard_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(22)
    headers = [random_header(rng, embedded=False) for _ in range(100)]
    monkeypatch.setattr(Message, "decode_into", None)
    assert all(outcome(raw) for raw in headers)


@given(st.binary(max_size=60))
def test_random_bytes_are_decoded_like_protobuf(raw: bytes) -> None:
    assert (ours(raw) is None) == (theirs(raw) is None)


def test_repeated_messages_are_merged() -> None:
    # output { shape { dim 1 } shape { dim 2 } }
    raw = bytes.fromhex("1a0a 1a03 0a0101 1a03 0a0102")
    assert ours(raw) == {"output": [{"shape": {"dim": [1, 2]}}]}


@pytest.mark.parametrize(
    ("raw", "problem", "offset"),
    [
        ("00", "a field has number 0", 1),
        ("ffffffff7f", "field tag does not fit in 32 bits", 0),
        ("10ffffffffffffffffffff01", "field dump_time does not end after 10 bytes", 1),
        ("10ff", "the data ends inside field dump_time", 1),
        ("0a05 61", "field version should have 5 bytes, but 1 are left", 2),
        ("32026180", "field op_name is not UTF-8", 3),
        ("7b", "group 15 is not closed", 1),
        ("7b 8401", "group 15 is closed as group 16", 3),
        ("7e", "field #15 has wire type 6", 1),
        ("7d 0102", "field #15 should have 4 bytes, but 2 are left", 1),
        ("7b" * 120, "groups are nested more than 100 deep", 100),
    ],
)
def test_errors_name_malformed_bytes(raw: str, problem: str, offset: int) -> None:
    assert outcome(bytes.fromhex(raw)) == (problem, offset)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"\x1a\x00" * 70_000, "more than 65536 items of field output are not credible"),
        (
            b"\x1a\x84\x80\x08\x1a\x80\x80\x08" + b"\x0a\xfc\xff\x07" + b"\x01" * 131_068,
            "more than 65536 items of field dim",
        ),
    ],
    ids=["outputs", "dims"],
)
def test_number_of_items_is_limited(raw: bytes, problem: str) -> None:
    with pytest.raises(DumpError, match=problem):
        DUMP_DATA.decode(Cursor(raw, "header"))


# Fields of two or three bytes each, which nothing but their number limits.
TINY_FIELDS = {
    "unknown": b"\x98\x06\x01",
    "repeated": b"\x10\x01",
    "strings": b"\x0a\x00",
    "groups": b"\x9b\x06\x9c\x06",
    "tensors with extents": b"\x1a\xa2\x06\x1a\x9f\x06\x0a\x9c\x06" + b"\x01" * 796,
}


@pytest.mark.parametrize("native", [True, False], ids=["native", "python"])
@pytest.mark.parametrize("field", TINY_FIELDS.values(), ids=TINY_FIELDS)
def test_number_of_fields_is_limited(field: bytes, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not native:
        monkeypatch.setattr(protowire, "NATIVE", None)
    raw = field * (-(-(MAX_FIELDS + 1) // max(1, field.count(b"\x01"))) + 1)
    with pytest.raises(DumpError, match=f"more than {MAX_FIELDS} fields in a header are not credible"):
        DUMP_DATA.decode(Cursor(raw, "header"))


def test_data_field_is_a_range() -> None:
    message = Message({1: Field("data", Type.DATA)})
    assert message.decode(Cursor(b"\x0a\x03abc", "file", origin=100)) == {"data": Range(102, 3)}


def test_raw_fields_are_the_whole_message_in_pieces() -> None:
    raw = bytes.fromhex("0801 1a03616263 25 00000000 290102030405060708 0802")
    fields = list(iter_fields(Cursor(raw, "file")))
    assert b"".join(field.raw for field in fields) == raw
    assert [(field.number, field.content) for field in fields] == [
        (1, None), (3, Range(4, 3)), (4, None), (5, None), (1, None),
    ]  # fmt: skip
