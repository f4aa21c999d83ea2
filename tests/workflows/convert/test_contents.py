"""Contents of the results of `convert`: every element type, layout and container, buffers and overflow records."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

from conversions import FILE
from dump_files import TIME, dump, tensor
from element_types import KNOWN, OPAQUE
from nano_files import nano_dump
from old_overflow_records import old_overflow_record
from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.dtypes import Kind
from opdiff.sample.container import (
    EncodedDump,
    EncodedTensor,
    Overflow,
    Unit,
    overflow_dump,
    overflow_record,
    protobuf_dump,
    standard_dump,
)
from opdiff.sample.names import DumpName
from sliced_dumps import Cuts, automatic_slices, manual_slices

if TYPE_CHECKING:
    from collections.abc import Callable

    from conversions import Convert
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from sliced_dumps import SliceFile


def numbers_of(dtype: DType) -> AnyArray:
    """Return numbers that a type represents exactly, limits and special values included."""
    if dtype.kind is Kind.BOOL:
        return np.array([True, False, False])
    if (dtype.bits <= 8 and dtype.kind is Kind.FLOAT) or dtype.bits < 8:
        return elements.value_table(dtype)
    if dtype.kind is Kind.INTEGER:
        info = np.iinfo(dtype.decoded)
        return np.array([info.min, info.max, 0, 1], dtype.decoded)
    plain = np.array(
        [0.0, -0.0, 1.5, -65504.0 if dtype is not dtypes.BFLOAT16 else 1e38, math.inf, -math.inf, math.nan]
    )
    if dtype.kind is Kind.COMPLEX:
        return (plain[:4] + 1j * plain[3::-1]).astype(dtype.decoded)
    return elements.decode(elements.encode(plain, dtype), dtype)


# Element types


@pytest.mark.parametrize("dtype", KNOWN, ids=str)
def test_numpy_files_have_the_values(convert: Convert, dtype: DType) -> None:
    values = numbers_of(dtype)
    path = convert.add(dump(tensor(values, dtype)))
    for form in ("npy", "npz"):
        assert convert(path, "-t", form).code == 0
    found = convert.load(f"{FILE}.output.0.npy")
    assert found.dtype == np.dtype(dtype.decoded)
    np.testing.assert_array_equal(found, values)
    with np.load(convert.out / f"{FILE}.npz", allow_pickle=False) as archive:
        assert archive.files == ["output_0"]
        np.testing.assert_array_equal(archive["output_0"], values)
        assert archive["output_0"].dtype == found.dtype


# Element types of raw files, as read by another library.
RAW_TYPES = {
    dtypes.BFLOAT16: ml_dtypes.bfloat16,
    dtypes.FLOAT8_E5M2: ml_dtypes.float8_e5m2,
    dtypes.FLOAT8_E4M3FN: ml_dtypes.float8_e4m3fn,
    dtypes.FLOAT8_E8M0: ml_dtypes.float8_e8m0fnu,
}


@pytest.mark.parametrize("dtype", KNOWN, ids=str)
def test_raw_files_have_the_stored_elements(convert: Convert, dtype: DType) -> None:
    values = numbers_of(dtype)
    source = tensor(values, dtype)
    convert.converted(dump(source), "-t", "bin")
    (raw,) = convert.contents().values()
    if dtype.bits < 8:
        np.testing.assert_array_equal(np.frombuffer(raw, dtype.decoded), values)
    else:
        assert raw == source.payload
        other = RAW_TYPES.get(dtype)
        if other is not None:
            np.testing.assert_array_equal(np.frombuffer(raw, other).astype(np.float64), values.astype(np.float64))


def test_an_undefined_type_gives_the_bytes(convert: Convert) -> None:
    convert.converted(dump(EncodedTensor(dtypes.UNDEFINED, (3, 7), "ND", b"\x01\xff\x80")))
    assert convert.load(f"{FILE}.output.0.npy").tolist() == [1, -1, -128]


@pytest.mark.parametrize("form", ["npy", "npz", "bin"])
@pytest.mark.parametrize("dtype", [*OPAQUE, 99], ids=str)
def test_undecodable_tensor_does_not_affect_others(convert: Convert, dtype: DType | int, form: str) -> None:
    odd = EncodedTensor(dtype, (4,), "ND", bytes(64))
    path = convert.add(dump(tensor([1.0]), odd, inputs=(tensor([2.0]),)))
    outcome = convert(path, "-t", form, "--strict")
    assert outcome.code == 1
    assert f"failed: {path} output:1: element type " in outcome.err
    assert (outcome.out.split(":")[0], outcome.err.count("\n")) == ("1 of 1 file converted", 1)
    assert len(convert.results()) == (1 if form == "npz" else 2)


@pytest.mark.parametrize("dtype", [dtypes.FLOAT16, dtypes.INT4, dtypes.BFLOAT16, dtypes.BOOL], ids=str)
@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)], ids=str)
def test_an_empty_tensor_keeps_its_type_and_shape(convert: Convert, dtype: DType, shape: tuple[int, ...]) -> None:
    path = convert.add(dump(tensor(np.zeros(shape), dtype)))
    for form in ("npy", "npz", "bin"):
        assert convert(path, "-t", form).code == 0
    found = convert.load(f"{FILE}.output.0.npy")
    assert (found.shape, found.dtype) == (shape, np.dtype(dtype.decoded))
    (raw,) = convert.out.glob("*.bin")
    assert raw.stat().st_size == 0


def test_padding_after_a_tensor_is_ignored(convert: Convert) -> None:
    padded = EncodedTensor(dtypes.FLOAT32, (2,), "ND", np.array([1, 2, 77], "<f4").tobytes())
    convert.converted(dump(padded, tensor([3.0])), "-t", "bin")
    assert convert.contents() == {
        f"{FILE}.output.0.2.float32.ND.bin": np.array([1, 2], "<f4").tobytes(),
        f"{FILE}.output.1.1.float32.ND.bin": np.array([3], "<f4").tobytes(),
    }


def test_a_large_tensor(convert: Convert) -> None:
    """A mapped file, written in layouts that are views of it."""
    values = np.arange(2 * 40 * 100 * 50, dtype=np.float32).reshape(2, 40, 100, 50)
    convert.converted(dump(tensor(values, dtypes.FLOAT32, "NC1HWC0")), "-f", "NHWC")
    found = convert.load(f"{FILE}.output.0.2x100x50x40.npy")
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, values.transpose(0, 2, 3, 1))


# Layouts

NCHW = np.arange(2 * 20 * 3 * 5).reshape(2, 20, 3, 5) % 100
NCDHW = np.arange(2 * 20 * 2 * 3 * 4).reshape(2, 20, 2, 3, 4) % 100
MATRIX = np.arange(3 * 20 * 37).reshape(3, 20, 37) % 100
AXES = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 2, 3, 1), "HWCN": (2, 3, 1, 0)}
LAYOUTS: dict[str, tuple[AnyArray, str, str, AnyArray]] = {
    f"{source}_to_{target}": (NCHW, source, target, NCHW.transpose(AXES[target]))
    for source in ("NC1HWC0", "FRACTAL_Z", "C1HWNC0", "NHWC1C0", "NCHW", "NHWC", "HWCN")
    for target in AXES
} | {
    "NDC1HWC0_to_NCDHW": (NCDHW, "NDC1HWC0", "NCDHW", NCDHW),
    "NDC1HWC0_to_NDHWC": (NCDHW, "NDC1HWC0", "NDHWC", NCDHW.transpose(0, 2, 3, 4, 1)),
    "FRACTAL_Z_3D_to_NCDHW": (NCDHW, "FRACTAL_Z_3D", "NCDHW", NCDHW),
    "FRACTAL_NZ_to_ND": (MATRIX, "FRACTAL_NZ", "ND", MATRIX),
    "FRACTAL_NZ_of_a_matrix": (MATRIX[0], "FRACTAL_NZ", "ND", MATRIX[0]),
    "FRACTAL_NZ_of_four_axes": (MATRIX[None], "FRACTAL_NZ", "ND", MATRIX[None]),
    "ND_to_ND": (MATRIX, "ND", "ND", MATRIX),
}


@pytest.mark.parametrize("dtype", [dtypes.FLOAT16, dtypes.INT8, dtypes.BFLOAT16], ids=str)
@pytest.mark.parametrize(("values", "source", "target", "expected"), LAYOUTS.values(), ids=LAYOUTS)
def test_layouts(
    convert: Convert, values: AnyArray, source: str, target: str, expected: AnyArray, dtype: DType
) -> None:
    convert.converted(dump(tensor(values, dtype, source)), "-f", target)
    found = convert.load(f"{FILE}.output.0.{'x'.join(map(str, expected.shape))}.npy")
    assert found.dtype == np.dtype(dtype.decoded)
    np.testing.assert_array_equal(found, expected)


def test_layout_is_unchanged_without_the_option(convert: Convert) -> None:
    source = tensor(NCHW, dtypes.FLOAT16, "NC1HWC0")
    convert.converted(dump(source))
    found = convert.load(f"{FILE}.output.0.npy")
    assert found.shape == source.shape == (2, 2, 3, 5, 16)
    assert found.tobytes() == source.payload


def test_shape_option_replaces_a_missing_shape(convert: Convert) -> None:
    bare = replace(tensor(NCHW, dtypes.FLOAT16, "NC1HWC0"), origin_shape=())
    assert convert(convert.add(dump(bare)), "-f", "NHWC", "--shape", "2x3x5x20", "-o", "0").code == 0
    np.testing.assert_array_equal(convert.load(f"{FILE}.output.0.2x3x5x20.npy"), NCHW.transpose(0, 2, 3, 1))


def test_steps_are_listed(convert: Convert) -> None:
    path = convert.add(dump(tensor(NCHW, dtypes.FLOAT16, "NC1HWC0")))
    steps = convert(path, "-f", "NHWC", "--json").json["files"][0]["steps"]
    expected = ["NC1HWC0 [2, 2, 3, 5, 16] -> NCHW [2, 20, 3, 5]", "360 padding elements cut", "axes NCHW -> NHWC"]
    assert steps == [{"tensor": "output:0", "step": step} for step in expected]


# Containers

TWO = EncodedDump(inputs=(tensor([-1.0, 300.0]),), outputs=(tensor([1.0, 2.0], dtypes.FLOAT16),), op_name="add")


@pytest.mark.parametrize("encode", [standard_dump, protobuf_dump, nano_dump], ids=["standard", "protobuf", "nano"])
def test_containers(convert: Convert, encode: Callable[[EncodedDump], bytes]) -> None:
    assert convert.converted(encode(TWO)) == [f"{FILE}.input.0.npy", f"{FILE}.output.0.npy"]
    assert convert.load(f"{FILE}.input.0.npy").tolist() == [-1.0, 300.0]
    assert convert.load(f"{FILE}.output.0.npy").tolist() == [1.0, 2.0]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("descr", ["<f4", ">f4", "<i8"])
def test_numpy_files_of_every_order(convert: Convert, descr: str, order: str) -> None:
    values = np.arange(24).reshape(2, 3, 4)
    convert.source.mkdir()
    np.save(convert.source / "golden.0.npy", np.asarray(values.astype(descr), order="F" if order == "F" else "C"))
    assert convert(convert.source / "golden.0.npy", "-t", "bin").code == 0
    (raw,) = convert.out.glob("golden.0.npy.output.0.24.*.ND.bin")
    np.testing.assert_array_equal(np.fromfile(raw, f"<{descr[1:]}").reshape(2, 3, 4), values)


def test_archives(convert: Convert) -> None:
    convert.source.mkdir()
    np.savez_compressed(convert.source / "a.npz", x=np.arange(3), y=np.eye(2))
    assert convert(convert.source / "a.npz").code == 0
    assert convert.load("a.npz.output.0.npy").tolist() == [0, 1, 2]
    np.testing.assert_array_equal(convert.load("a.npz.output.1.npy"), np.eye(2))


def test_results_can_be_converted_again(convert: Convert) -> None:
    convert.converted(dump(tensor([1.0]), tensor([2.0, 3.0]), inputs=(tensor([4.0]),)), "-t", "npz")
    path = convert.out / f"{FILE}.npz"
    with np.load(path, allow_pickle=False) as archive:
        found = {name: archive[name].tolist() for name in archive.files}
    assert found == {"input_0": [4.0], "output_0": [1.0], "output_1": [2.0, 3.0]}
    assert convert(path).code == 0
    assert convert.load(f"{FILE}.npz.output.1.npy").tolist() == [2.0, 3.0]


# Slices


@pytest.mark.parametrize("make", [automatic_slices, manual_slices], ids=["automatic", "manual"])
def test_a_slice_has_its_own_shape(convert: Convert, make: Callable[..., tuple[SliceFile, ...]]) -> None:
    whole = np.arange(2 * 5 * 3, dtype=np.float32).reshape(2, 5, 3)
    name, cuts = DumpName("Conv2D", "conv", 3, 4, TIME), Cuts(((1, 2, 1), (1,)))
    files = make(name, EncodedDump(outputs=(tensor(whole), tensor([7.0]))), cuts)
    for file in files:
        convert.add(file.content, file.name)
    assert convert(convert.source).code == 0
    parts = [convert.load(f"{file.name}.output.0.npy") for file in files]
    assert [part.shape for part in parts] == [(2, 3, 3), (2, 2, 3)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)
    assert convert.load(f"{files[1].name}.output.1.npy").tolist() == [7.0]


# Buffers, spaces and overflow records


def test_buffers_and_spaces_are_written_unchanged(convert: Convert) -> None:
    convert.converted(standard_dump(EncodedDump(buffers=(b"\xaa\xbb\xcc", b""), spaces=(b"log\0\0",))))
    blobs = {"l1buffer.0": b"\xaa\xbb\xcc", "l1buffer.1": b"", "space.0": b"log\0\0"}
    assert convert.contents() == {f"{FILE}.{name}.bin": content for name, content in blobs.items()}


DEBUG = f"Opdebug.Node_OpDebug.3.2.{TIME}"
TASK = {"model_id": 1, "stream_id": 2, "task_id": 3, "task_type": 0}
WHERE = {"context_id": 65535, "thread_id": 65535}
CORE = {**TASK, **WHERE, "pc_start": "0x1000", "para_base": "0xff", "core_id": 5, "block_id": 6}
FACTS = Overflow(
    model_id=1, stream_id=2, task_id=3, pc_start=0x1000, para_base=0xFF, core_id=5, block_id=6, cpu_id=4,
    src_addr=0x10, dst_addr=0x20, channel_id=9, kernel_code=0xAB, status=(9,),
)  # fmt: skip


def acc_json(unit: str, nbytes: int, data: dict[str, object], version: int = 0) -> dict[str, object]:
    head = {"valid": 1, "acc_type": unit, "rsv": 0, "data_len": nbytes}
    return {"magic": "0x5a5a5a5a", "version": version, "acc_list": {**head, "data": data}}


def record(unit: Unit, status: tuple[int, ...] = (9,), version: int = 0) -> bytes:
    return overflow_record(replace(FACTS, unit=unit, status=status, version=version))


RECORDS: dict[str, tuple[bytes, dict[str, object]]] = {
    "core": (record(Unit.AIC), acc_json("AIC", 88, {**CORE, "status": 9})),
    "vector": (record(Unit.AIV), acc_json("AIV", 88, {**CORE, "status": 9})),
    "four_status_words": (
        record(Unit.AIC, (1, 2, 3, 4), 1),
        acc_json("AIC", 112, {**CORE, "status": [1, 2, 3, 4]}, 1),
    ),
    "cpu": (
        record(Unit.AICPU),
        acc_json("AICPU", 64, {**TASK, "context_id": 65535, "cpu_id": 4, "thread_id": 65535, "status": 9}),
    ),
    "copy": (
        record(Unit.SDMA),
        acc_json("SDMA", 80, {**TASK, **WHERE, "src_addr": "0x10", "dst_addr": "0x20", "channel_id": 9, "status": 9}),
    ),
    "old": (
        old_overflow_record(FACTS, None, FACTS),
        {
            "DHA Atomic Add": {**TASK, "pc_start": "0x1000", "para_base": "0xff", "status": 9},
            "L2 Atomic Add": dict.fromkeys(TASK, 0) | {"pc_start": "0x0", "para_base": "0x0", "status": 0},
            "AI Core": {
                **TASK, "pc_start": "0x1000", "para_base": "0xff", "kernel_code": "0xab", "block_idx": 6, "status": 9,
            },
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "expected"), RECORDS.values(), ids=RECORDS)
def test_overflow_records_become_json(convert: Convert, raw: bytes, expected: dict[str, object]) -> None:
    assert convert.converted(standard_dump(overflow_dump(raw)), name=DEBUG) == [f"{DEBUG}.output.0.json"]
    text = (convert.out / f"{DEBUG}.output.0.json").read_text()
    assert json.loads(text) == expected
    assert text.splitlines()[1].startswith('    "')


def test_overflow_records_are_a_tensor_with_format(convert: Convert) -> None:
    raw = RECORDS["cpu"][0]
    convert.converted(standard_dump(overflow_dump(raw)), "-f", "ND", name=DEBUG)
    assert convert.load(f"{DEBUG}.output.0.{len(raw)}.npy").tobytes() == raw


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"\1" * 100, "an old overflow record has 2048 bytes, this one has 100"),
        (RECORDS["core"][0][:50], "task_type should have 8 bytes, but 2 are left"),
        (RECORDS["core"][0][:12] + b"\7" + RECORDS["core"][0][13:], "accelerator type 7 is not known"),
    ],
    ids=["old_and_short", "new_and_short", "unknown_unit"],
)
def test_damaged_overflow_records(convert: Convert, raw: bytes, problem: str) -> None:
    outcome = convert(convert.add(standard_dump(overflow_dump(raw)), DEBUG))
    assert outcome.code == 3
    assert problem in outcome.err
