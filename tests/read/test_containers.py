"""Standard, protobuf and nano dumps: round trips with the encoder, and errors for damaged files."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dump_files import with_header_field
from nano_files import nano_dump
from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.errors import DumpError, ElementError
from opdiff.core.tensor import Container, OpDump, Slot, TensorSpec
from opdiff.read import read_operator
from opdiff.read.ascend import MAX_HEADER
from opdiff.sample.container import (
    EncodedDump,
    EncodedTensor,
    OriginalTensor,
    encode_tensor,
    protobuf_dump,
    standard_dump,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opdiff.core.source import Source

    Encode = Callable[[EncodedDump], bytes]

KNOWN = [dtype for dtype in dtypes.BY_NUMBER.values() if dtype.kind is not dtypes.Kind.OPAQUE]
IN_NANO = [dtype for dtype in KNOWN if dtype in dtypes.NANO_BY_NUMBER.values()]


def tensors(types: list[dtypes.DType]) -> st.SearchStrategy[EncodedTensor]:
    """Draw tensors of the given types, some with padding after the data."""

    def build(dtype: dtypes.DType, shape: list[int], origin: list[int], seed: int, extra: int) -> EncodedTensor:
        nbytes = dtype.nbytes(int(np.prod(shape))) + extra
        payload = np.random.default_rng(seed).bytes(nbytes)
        stored = (nbytes,) if dtype is dtypes.UNDEFINED else tuple(shape)
        return EncodedTensor(dtype, stored, seed % 50, payload, tuple(origin), seed % 5 + 1, seed)

    dims = st.lists(st.integers(0, 4), max_size=5)
    return st.builds(build, st.sampled_from(types), dims, dims, st.integers(0, 2**32), st.integers(0, 8))


def dumps(types: list[dtypes.DType]) -> st.SearchStrategy[EncodedDump]:
    return st.builds(
        EncodedDump,
        inputs=st.lists(tensors(types), max_size=3).map(tuple),
        outputs=st.lists(tensors(types), min_size=1, max_size=3).map(tuple),
        buffers=st.lists(st.binary(max_size=9), max_size=2).map(tuple),
        spaces=st.lists(st.binary(max_size=9), max_size=2).map(tuple),
        op_name=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        dump_time=st.integers(1, 2**64 - 1),
    )


def write(folder: Path, raw: bytes, name: str = "Add.net_add.5.7.1671234567890123") -> str:
    path = folder / name
    path.write_bytes(raw)
    return str(path)


def assert_equal(operator: OpDump, dump: EncodedDump, *, groups: bool = True) -> None:
    for slot, encoded in ((Slot.INPUT, dump.inputs), (Slot.OUTPUT, dump.outputs)):
        read = operator.tensors(slot)
        assert len(read) == len(encoded)
        for tensor, written in zip(read, encoded, strict=True):
            assert isinstance(written.dtype, dtypes.DType)
            shape, group_count = written.shape or (), written.groups if groups else 1
            described = written.dtype, shape, tensor.spec.layout, written.origin_shape, group_count
            assert tensor.spec == TensorSpec(*described, written.address or None)
            codes = elements.unpack(written.payload, written.dtype, int(np.prod(shape)))
            np.testing.assert_array_equal(tensor.codes().reshape(-1), codes)


@pytest.mark.parametrize(
    ("encode", "container", "version"),
    [(standard_dump, Container.STANDARD, "2.0"), (protobuf_dump, Container.PROTOBUF, "1.0")],
)
@given(dump=dumps(KNOWN))
def test_standard_and_protobuf_dumps_round_trip(
    encode: Encode, container: Container, version: str, dump: EncodedDump, tmp_path_factory: pytest.TempPathFactory
) -> None:
    operator = read_operator(write(tmp_path_factory.getbasetemp(), encode(replace(dump, version=version))))
    assert (operator.container, operator.version) == (container, version)
    assert (operator.op_name, operator.dump_time) == (dump.op_name, dump.dump_time)
    assert tuple(bytes(blob.source.raw()) for blob in operator.buffers) == dump.buffers
    assert tuple(bytes(blob.source.raw()) for blob in operator.spaces) == dump.spaces
    assert_equal(operator, dump)


@given(dump=dumps(IN_NANO))
def test_nano_dumps_round_trip(dump: EncodedDump, tmp_path_factory: pytest.TempPathFactory) -> None:
    operator = read_operator(write(tmp_path_factory.getbasetemp(), nano_dump(dump)))
    assert operator.container is Container.NANO
    assert_equal(operator, dump, groups=False)


@pytest.mark.parametrize(("encode", "count"), [(standard_dump, 20_000), (nano_dump, 2000)])
def test_header_longer_than_the_first_read(encode: Encode, count: int, tmp_path: Path) -> None:
    small = encode_tensor(np.arange(3, dtype=np.int32), dtypes.INT32)
    operator = read_operator(write(tmp_path, encode(EncodedDump(outputs=(small,) * count))))
    assert len(operator.outputs) == count
    np.testing.assert_array_equal(operator.outputs[-1].array(), [0, 1, 2])


SMALL = encode_tensor(np.ones((2, 2), np.float16), dtypes.FLOAT16)


def with_field(field: str) -> bytes:
    return with_header_field(standard_dump(EncodedDump(outputs=(SMALL,))), bytes.fromhex(field))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        pytest.param("10 01 10 02", "field dump_time occurs twice", id="number twice"),
        pytest.param("32 01 61 32 01 61", "field op_name occurs twice", id="string twice"),
        pytest.param("1a 0a 1a 03 0a 01 01 1a 03 0a 01 02", "field shape occurs twice", id="message twice"),
        pytest.param("15 00 00 00 00", "field dump_time has wire type 5", id="other wire type"),
    ],
)
def test_anomalous_headers_raise(tmp_path: Path, field: str, message: str) -> None:
    with pytest.raises(DumpError, match=message):
        read_operator(write(tmp_path, with_field(field)))


def test_unknown_field_is_noted_for_all_tensors(tmp_path: Path) -> None:
    operator = read_operator(write(tmp_path, with_field("50 07")))
    assert "unknown number 10" in str(operator.anomalies[0])
    assert operator.outputs[0].notes == operator.anomalies
    np.testing.assert_array_equal(operator.outputs[0].array(), np.ones((2, 2)))


def test_flipped_bits_of_headers_are_noticed(tmp_path: Path) -> None:
    large = encode_tensor(np.ones((1, 32, 4, 4), np.float16), dtypes.FLOAT16, "NC1HWC0")
    dump = EncodedDump((SMALL, large), (large, SMALL), (b"abc",), (b"log",), op_name="net/add")
    sound = standard_dump(dump)
    path = write(tmp_path, sound)
    ranges = ranges_of(read_operator(path))
    for bit in range(8 * (8 + int.from_bytes(sound[:8], "little"))):
        flipped = bytearray(sound)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            operator = read_operator(write(tmp_path, bytes(flipped)))
        except DumpError:
            continue
        assert ranges_of(operator) == ranges or operator.anomalies, f"bit {bit}"


def ranges_of(operator: OpDump) -> list[tuple[Slot, Source]]:
    return [(slot, tensor.source) for slot in Slot for tensor in operator.tensors(slot)]


@pytest.mark.parametrize("encode", [standard_dump, protobuf_dump, nano_dump])
def test_bytes_that_no_element_needs_are_doubtful(tmp_path: Path, encode: Callable[[EncodedDump], bytes]) -> None:
    tensor = EncodedTensor(dtypes.INT8, (1024,), "ND", bytes(2048))
    operator = read_operator(write(tmp_path, encode(EncodedDump(outputs=(tensor, SMALL)))))
    assert [str(doubt)[:78] for doubt in operator.outputs[0].doubts] == [
        "its data has 2048 bytes, of which [1024] elements of int8 take 1024; no alignm"
    ]
    assert operator.outputs[1].doubts == ()


@pytest.mark.parametrize(
    ("nbytes", "is_doubtful"),
    [(42, False), (43, True), (64, False), (96, False), (128, False), (160, True), (512, False), (1024, True)],
)
def test_only_padding_of_device_buffers_is_not_doubtful(tmp_path: Path, nbytes: int, is_doubtful: bool) -> None:
    tensor = EncodedTensor(dtypes.FLOAT16, (3, 7), "ND", bytes(nbytes))
    (output,) = read_operator(write(tmp_path, standard_dump(EncodedDump(outputs=(tensor,))))).outputs
    assert bool(output.doubts) is is_doubtful


def test_unknown_type_numbers_affect_only_their_tensor(tmp_path: Path) -> None:
    good = encode_tensor(np.ones(2, np.float32), dtypes.FLOAT32)
    strange = EncodedTensor(77, (2,), 99, b"abcd")
    operator = read_operator(write(tmp_path, standard_dump(EncodedDump(inputs=(strange,), outputs=(good,)))))
    assert operator.inputs[0].spec.dtype.name == "type_77"
    assert operator.inputs[0].spec.layout == "FORMAT_99"
    np.testing.assert_array_equal(operator.outputs[0].array(), [1, 1])


def test_groups_of_format_words(tmp_path: Path) -> None:
    tensor = EncodedTensor(dtypes.INT8, (4,), 4 | 32 << 8 | 5 << 24, b"abcd")
    operator = read_operator(write(tmp_path, standard_dump(EncodedDump(outputs=(tensor,)))))
    assert (operator.outputs[0].spec.layout, operator.outputs[0].spec.groups) == ("FRACTAL_Z", 32)


def test_nano_tensors_without_shape_are_flat(tmp_path: Path) -> None:
    original = OriginalTensor("conv_é")
    tensor = EncodedTensor(dtypes.INT16, None, "ND", b"\1\0\2\0\3\0", original=original)
    operator = read_operator(write(tmp_path, nano_dump(EncodedDump(outputs=(tensor,)))))
    assert operator.outputs[0].name == "conv_é"
    np.testing.assert_array_equal(operator.outputs[0].array(), [1, 2, 3])


def test_missing_nano_sections_are_empty(tmp_path: Path) -> None:
    head = struct.pack("<II", 0x5A5A5A5A, 1)
    operator = read_operator(write(tmp_path, struct.pack("<Q", 8) + head))
    assert (operator.inputs, operator.outputs) == ((), ())


def one_output() -> EncodedDump:
    return EncodedDump(outputs=(encode_tensor(np.arange(8, dtype=np.float32), dtypes.FLOAT32),), op_name="x")


@pytest.mark.parametrize("encode", [standard_dump, protobuf_dump, nano_dump])
def test_file_truncated_at_any_byte(encode: Encode, tmp_path: Path) -> None:
    """Truncation is an error, except at field boundaries of the protobuf form, which has no total length."""
    raw = encode(one_output())
    for size in range(len(raw)):
        path = write(tmp_path, raw[:size])
        try:
            operator = read_operator(path)
        except DumpError as error:
            assert error.path == path
            continue
        assert encode is protobuf_dump
        assert len(operator.outputs) == 1


BIG = 2**62
DAMAGED: dict[str, tuple[bytes, str, int | None]] = {
    "empty": (b"", "the file is empty; the dump was interrupted or the disk was full", None),
    "eight bytes": (b"12345678", "8 bytes are too few for a dump; the file is truncated or was never written", None),
    "long header": (
        struct.pack("<Q", MAX_HEADER) + b"payload",
        f"the header should have {MAX_HEADER} bytes, but the file has 15: truncated, or not a dump",
        0,
    ),
    "no length": (
        struct.pack("<Q", MAX_HEADER + 1) + b"payload",
        "not a dump file, or damaged: its first 8 bytes are not the length of a header",
        0,
    ),
    "header over the limit": (
        struct.pack("<Q", MAX_HEADER + 1) + bytes(MAX_HEADER + 1),
        f"a header of {MAX_HEADER + 1} bytes is not credible; the limit is {16 << 20}",
        0,
    ),
    "nano header over the limit": (
        struct.pack("<QI", MAX_HEADER + 1, 0x5A5A5A5A) + bytes(MAX_HEADER),
        f"a header of {MAX_HEADER + 1} bytes is not credible; the limit is {16 << 20}",
        0,
    ),
    "many nano values": (
        struct.pack("<QIIIII", 2_800_060, 0x5A5A5A5A, 1, 4, 2_800_044, 1)
        + bytes(36)
        + struct.pack("<I", 2_800_000)
        + struct.pack("<II", 9, 0) * 350_000,
        "more than 262144 fields in a header are not credible",
        2_097_212,
    ),
    "cut payload": (
        standard_dump(one_output())[:-1],
        "32 bytes of data start here, but the file ends at 65: it is truncated",
        34,
    ),
    "more": (standard_dump(one_output()) + b"more", "header and tensors take 66 bytes, but the file has 70", 66),
    "cut nano": (
        struct.pack("<QI", 4, 0x5A5A5A5A) + b"x",
        "field version should have 4 bytes, but 0 are left",
        12,
    ),
    "long nano header": (
        struct.pack("<QII", BIG, 0x5A5A5A5A, 1),
        f"the header should have {BIG} bytes, but the file has 16: truncated, or not a dump",
        0,
    ),
    "many nano records": (
        struct.pack("<QIIIII", 20, 0x5A5A5A5A, 1, 4, 4, 2**31),
        f"{2**31} records of section input do not fit in 0 bytes",
        28,
    ),
    "more nano": (nano_dump(one_output()) + b"x", "header and tensors take 156 bytes, but the file has 157", 156),
}


@pytest.mark.parametrize(("raw", "problem", "offset"), DAMAGED.values(), ids=DAMAGED)
def test_errors_name_the_damage(raw: bytes, problem: str, offset: int | None, tmp_path: Path) -> None:
    path = write(tmp_path, raw)
    with pytest.raises(DumpError) as caught:
        read_operator(path)
    assert (caught.value.path, str(caught.value.problem), caught.value.offset) == (path, problem, offset)


def test_special_files_raise(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="not a regular file"):
        read_operator(str(tmp_path))
    with pytest.raises(DumpError, match="cannot be opened: No such file"):
        read_operator(str(tmp_path / "nothing"))


@given(raw=st.binary(max_size=200))
def test_random_bytes_give_a_value_or_dump_error(raw: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    for name in ("Add.a.1.2.1671234567890123", "a.0.1.npy", "a.npz"):
        path = write(folder, raw, name)
        try:
            operator = read_operator(path)
        except DumpError as error:
            assert error.path.startswith(path)
        else:
            assert all(tensor.source.nbytes <= len(raw) for tensor in operator.inputs + operator.outputs)


@given(seed=st.integers(0, 2**32), place=st.floats(0, 1), value=st.integers(0, 255))
def test_changed_byte_gives_a_value_or_dump_error(
    seed: int, place: float, value: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    encode = (standard_dump, protobuf_dump, nano_dump)[seed % 3]
    raw = bytearray(encode(one_output()))
    raw[int(place * (len(raw) - 1))] = value
    path = write(tmp_path_factory.getbasetemp(), bytes(raw))
    try:
        operator = read_operator(path)
        for tensor in operator.outputs:
            tensor.array()
    except DumpError as error:
        assert error.path == path
    except ElementError as error:
        assert error.problem
