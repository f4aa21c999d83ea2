"""File names of the results of `convert`."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import run
from dump_files import TIME, add, dump, tensor
from opdiff.core import dtypes
from opdiff.sample.container import EncodedDump, EncodedTensor, Overflow, overflow_dump, overflow_record, standard_dump
from opdiff.workflows.convert.result_names import raw_name, shorten

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opdiff.core.dtypes import DType

FILE = f"Conv2D.net_conv.5.7.{TIME}"
CONV = EncodedDump(
    inputs=(tensor([1.0, 2.0]), tensor(np.ones((3, 1, 2, 2)), dtypes.INT8, "NHWC")),
    outputs=(tensor(np.ones((1, 3, 2, 2)), dtypes.FLOAT16, "NC1HWC0"),),
    buffers=(b"\xaa\xbb", b"\xcc"),
    spaces=(b"log\0",),
    op_name="net/conv",
)
BLOBS = ["l1buffer.0.bin", "l1buffer.1.bin", "space.0.bin"]

# Options, and the parts of names after that of the dump file.
NAMES: dict[str, tuple[str, list[str]]] = {
    "npy": ("", ["input.0.npy", "input.1.npy", "output.0.npy", *BLOBS]),
    "bin": (
        "-t bin",
        ["input.0.2.float32.ND.bin", "input.1.12.int8.NHWC.bin", "output.0.64.float16.NC1HWC0.bin", *BLOBS],
    ),
    "npz": ("-t npz", ["npz", *BLOBS]),
    "npy_in_a_layout": ("-f NCHW", ["input.0.2.npy", "input.1.3x1x2x2.npy", "output.0.1x3x2x2.npy"]),
    "bin_in_a_layout": (
        "-t bin -f NCHW",
        ["input.0.2.float32.NCHW.bin", "input.1.3_1_2_2.int8.NCHW.bin", "output.0.1_3_2_2.float16.NCHW.bin"],
    ),
    "npz_in_a_layout": ("-t npz -f NCHW", ["npz"]),
    "one_output": ("--output-tensor 0", ["output.0.npy"]),
    "one_input": ("--input 1", ["input.1.npy"]),
    "one_input_in_a_layout": ("-i 1 -f NCHW", ["input.1.3x1x2x2.npy"]),
    "with_a_shape": ("--output-tensor 0 -f NHWC -s 1,2,2,3", ["output.0.1x2x2x3.npy"]),
    "in_its_own_layout": ("--output_tensor 0 -f NC1HWC0", ["output.0.1x1x2x2x16.npy"]),
}


def test_the_vendors_option_for_an_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = add(tmp_path / "in", FILE, standard_dump(CONV))
    words = ("convert", path, "-out", tmp_path / "out", "-o", "0")
    outcome = run(capsys, *words)
    hint = "--output-tensor 0 says the same, and -o ./0 is a directory"
    assert outcome.err == f"opdiff: note: -o 0 selects an output tensor; {hint}\n"
    assert results(tmp_path / "out") == [f"{FILE}.output.0.npy"]
    assert run(capsys, *words, "-q").err == ""


def results(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize(("options", "names"), NAMES.values(), ids=NAMES)
def test_names(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, names: list[str]) -> None:
    path = add(tmp_path / "in", FILE, standard_dump(CONV))
    outcome = run(capsys, "convert", path, "-out", tmp_path / "out", *options.split())
    assert (outcome.code, outcome.err) == (0, "")
    assert results(tmp_path / "out") == sorted(f"{FILE}.{name}" for name in names)


@pytest.mark.parametrize(
    ("file", "op_name", "stem"),
    [
        (FILE, "net/conv", f"Conv2D.conv.5.7.{TIME}"),
        (FILE, "conv", f"Conv2D.conv.5.7.{TIME}"),
        (FILE, "net/conv.1:0", f"Conv2D.conv.1_0.5.7.{TIME}"),
        (FILE, "", FILE),
        (FILE, "net/../../etc\\passwd\n\x1b[31m", f"Conv2D.etc_passwd___31m.5.7.{TIME}"),
        (f"Conv2D.net_conv.5.{TIME}", "net/conv", f"Conv2D.net_conv.5.{TIME}"),
        (f"{FILE}.0.1.2.0", "net/conv", f"{FILE}.0.1.2.0"),
    ],
    ids=["last_part", "no_parts", "dots", "no_name", "hostile", "four_fields", "nine_fields"],
)
@pytest.mark.parametrize(("options", "layout"), [("", "NC1HWC0"), ("-f NCHW", "NCHW")], ids=["stored", "converted"])
def test_msnpy_is_named_after_the_operator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, op_name: str, stem: str, options: str, layout: str
) -> None:
    path = add(tmp_path / "in", file, dump(CONV.outputs[0], op_name=op_name))
    assert run(capsys, "convert", path, "-out", tmp_path / "out", "-t", "msnpy", *options.split()).code == 0
    assert results(tmp_path / "out") == [f"{stem}.output.0.{layout}.npy"]


def test_msnpy_writes_inconvertible_tensors_in_their_stored_layout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = add(tmp_path / "in", FILE, dump(tensor(np.ones((1, 2, 3, 4, 5)), dtypes.FLOAT16, "NCDHW")))
    outcome = run(capsys, "convert", path, "-out", tmp_path / "out", "-t", "msnpy", "-f", "NHWC", "--strict")
    assert outcome.code == 1
    assert "output:0: layout NCDHW: axes NCDHW cannot become axes NHWC" in outcome.err
    assert results(tmp_path / "out") == [f"{FILE}.output.0.NCDHW.npy"]


RAW_NAMES = {
    dtypes.FLOAT16: "float16",
    dtypes.BFLOAT16: "bfloat16",
    dtypes.HIFLOAT8: "hifloat8",
    dtypes.FLOAT8_E5M2: "float8_e5m2",
    dtypes.BOOL: "bool",
    dtypes.COMPLEX64: "complex64",
    dtypes.COMPLEX32: "complex32",
    dtypes.UNDEFINED: "int8",
    dtypes.RESOURCE: "int64",
    dtypes.QUINT16: "uint16",
    dtypes.INT4: "int8",
    dtypes.UINT1: "uint8",
    dtypes.UINT2: "uint8",
    dtypes.FLOAT4_E2M1: "float64",
    dtypes.FLOAT6_E3M2: "float64",
}


@pytest.mark.parametrize(("dtype", "name"), RAW_NAMES.items(), ids=str)
def test_element_types_of_raw_files(dtype: DType, name: str) -> None:
    assert raw_name(dtype) == name


def test_unknown_layout_is_named_by_its_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = EncodedTensor(dtypes.INT8, (2,), 77, b"ab")
    path = add(tmp_path / "in", FILE, dump(odd))
    assert run(capsys, "convert", path, "-out", tmp_path / "out", "-t", "bin").code == 0
    assert results(tmp_path / "out") == [f"{FILE}.output.0.2.int8.FORMAT_77.bin"]


def test_a_scalar_is_an_array_of_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = add(tmp_path / "in", FILE, dump(tensor(np.array(2.5))))
    for options in ("", "-f ND", "-t bin"):
        assert run(capsys, "convert", path, "-out", tmp_path / "out", *options.split()).code == 0
    names = ["output.0.1.float32.ND.bin", "output.0.1.npy", "output.0.npy"]
    assert results(tmp_path / "out") == [f"{FILE}.{name}" for name in names]
    assert np.load(tmp_path / "out" / f"{FILE}.output.0.npy").tolist() == [2.5]


def test_buffers_of_other_kinds_go_by_their_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from opdiff.core import wire

    header = wire.block(5, wire.number(1, 3) + wire.number(3, 2))
    path = add(tmp_path / "in", FILE, len(header).to_bytes(8, "little") + header + b"xy")
    assert run(capsys, "convert", path, "-out", tmp_path / "out").code == 0
    assert results(tmp_path / "out") == [f"{FILE}.buffer3.0.bin"]
    assert (tmp_path / "out" / f"{FILE}.buffer3.0.bin").read_bytes() == b"xy"


# Names that are too long for a file system

LONG = "Conv2D." + "n" * 220 + f".5.7.{TIME}"


@pytest.mark.parametrize(
    ("options", "ending"),
    [("", "output.0.npy"), ("-t bin", "output.0.1.float32.ND.bin"), ("-f ND", "output.0.1.npy")],
    ids=["npy", "bin", "converted"],
)
def test_a_long_name_becomes_a_hash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, ending: str
) -> None:
    path = add(tmp_path / "in", LONG, dump(tensor([1.0])))
    full = f"{LONG}.{ending}"
    assert len(full) >= 255
    short = uuid.uuid3(uuid.NAMESPACE_DNS, full).hex + os.path.splitext(ending)[1]
    for _ in range(2):
        assert run(capsys, "convert", path, "-out", tmp_path / "out", *options.split()).code == 0
        assert results(tmp_path / "out") == sorted([short, "mapping.csv"])
        assert (tmp_path / "out" / "mapping.csv").read_text() == f"{short},{full}\n"


@pytest.mark.parametrize(("length", "hashed"), [(254, False), (255, True), (256, True)], ids=["254", "255", "256"])
def test_maximum_name_length(length: int, *, hashed: bool) -> None:
    name = "n" * (length - 4) + ".npy"
    assert (shorten(name) != name) is hashed
    assert shorten(name).endswith(".npy")


def test_length_of_a_name_is_in_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = add(tmp_path / "in", "算" * 82, dump(tensor([1.0])))
    assert run(capsys, "convert", path, "-out", tmp_path / "out").code == 0
    short = uuid.uuid3(uuid.NAMESPACE_DNS, "算" * 82 + ".output.0.npy").hex + ".npy"
    assert results(tmp_path / "out") == sorted([short, "mapping.csv"])


def test_long_name_that_is_not_utf8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = add(tmp_path / "in", os.fsdecode(b"\xff" + b"n" * 249), dump(tensor([1.0])))
    assert run(capsys, "convert", path, "-out", tmp_path / "out").code == 0
    assert len(results(tmp_path / "out")) == 2
    assert (tmp_path / "out" / "mapping.csv").read_bytes().split(b",")[1].startswith(b"\xffnnn")


@pytest.mark.parametrize("end", ["\n", ""], ids=["whole_line", "no_end_of_line"])
def test_the_mapping_of_a_dump_folder_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str], end: str) -> None:
    path = add(tmp_path, LONG, dump(tensor([1.0])))
    (tmp_path / "mapping.csv").write_text(f"123,Add.a.1.2.{TIME}{end}")
    assert run(capsys, "convert", path, "-out", tmp_path).code == 0
    lines = (tmp_path / "mapping.csv").read_text().splitlines()
    assert lines[0] == f"123,Add.a.1.2.{TIME}"
    assert [line.split(",")[1] for line in lines[1:]] == [f"{LONG}.output.0.npy"]


def test_each_folder_has_its_own_mapping(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, count in (("a", 1), ("b", 2)):
        for number in range(count):
            add(tmp_path / "in" / folder, LONG.replace("nn", f"n{number}", 1), dump(tensor([1.0]), tensor([2.0])))
    assert run(capsys, "convert", tmp_path / "in", "-out", tmp_path / "out").code == 0
    lines = {folder: (tmp_path / "out" / folder / "mapping.csv").read_text().splitlines() for folder in "ab"}
    assert {folder: len(found) for folder, found in lines.items()} == {"a": 2, "b": 4}


# Files that are named after something else


def test_results_of_a_hashed_file_carry_the_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The kind of file is known by its real name: here a slice and a debug file."""
    overflow = standard_dump(overflow_dump(overflow_record(Overflow())))
    add(tmp_path / "in", "111", overflow)
    add(tmp_path / "in", "222", dump(CONV.outputs[0], op_name="net/conv"))
    (tmp_path / "in" / "mapping.csv").write_text(f"111,Opdebug.Node_OpDebug.1.2.{TIME}\n222,{FILE}\n")
    assert run(capsys, "convert", tmp_path / "in", "-out", tmp_path / "out").code == 0
    assert results(tmp_path / "out") == ["111.output.0.json", "222.output.0.npy"]


def test_a_link_gives_its_own_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "link").symlink_to(add(tmp_path / "in", FILE))
    assert run(capsys, "convert", tmp_path / "link", "-out", tmp_path / "out").code == 0
    assert results(tmp_path / "out") == ["link.output.0.npy"]


@pytest.mark.parametrize(
    "change",
    [
        lambda conv: replace(conv, outputs=conv.outputs * 12),
        lambda conv: replace(conv, inputs=(), outputs=()),
    ],
    ids=["two_digits", "only_blobs"],
)
def test_indices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[EncodedDump], EncodedDump]
) -> None:
    conv = change(CONV)
    path = add(tmp_path / "in", FILE, standard_dump(conv))
    assert run(capsys, "convert", path, "-out", tmp_path / "out").code == 0
    expected = [f"{FILE}.{name}" for name in BLOBS]
    for slot, tensors in (("input", conv.inputs), ("output", conv.outputs)):
        expected += [f"{FILE}.{slot}.{index}.npy" for index in range(len(tensors))]
    assert results(tmp_path / "out") == sorted(expected)
