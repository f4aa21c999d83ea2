"""File names of the results of `convert`."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dump_files import TIME, dump, tensor
from opdiff.core import dtypes, wire
from opdiff.sample.container import EncodedDump, EncodedTensor, Overflow, overflow_dump, overflow_record, standard_dump
from opdiff.workflows.convert.result_names import raw_name, shorten

if TYPE_CHECKING:
    from conversions import Convert
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


def test_the_vendors_option_for_an_output(convert: Convert) -> None:
    path = convert.add(standard_dump(CONV), FILE)
    hint = "--output-tensor 0 says the same, and -o ./0 is a directory"
    assert convert(path, "-o", "0").err == f"opdiff: note: -o 0 selects an output tensor; {hint}\n"
    assert convert.results() == [f"{FILE}.output.0.npy"]
    assert convert(path, "-o", "0", "-q").err == ""


@pytest.mark.parametrize(("options", "names"), NAMES.values(), ids=NAMES)
def test_names(convert: Convert, options: str, names: list[str]) -> None:
    found = convert.converted(standard_dump(CONV), *options.split(), name=FILE)
    assert found == sorted(f"{FILE}.{name}" for name in names)


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
    convert: Convert, file: str, op_name: str, stem: str, options: str, layout: str
) -> None:
    found = convert.converted(dump(CONV.outputs[0], op_name=op_name), "-t", "msnpy", *options.split(), name=file)
    assert found == [f"{stem}.output.0.{layout}.npy"]


def test_msnpy_writes_inconvertible_tensors_in_their_stored_layout(convert: Convert) -> None:
    path = convert.add(dump(tensor(np.ones((1, 2, 3, 4, 5)), dtypes.FLOAT16, "NCDHW")), FILE)
    outcome = convert(path, "-t", "msnpy", "-f", "NHWC", "--strict")
    assert outcome.code == 1
    assert "output:0: layout NCDHW: axes NCDHW cannot become axes NHWC" in outcome.err
    assert convert.results() == [f"{FILE}.output.0.NCDHW.npy"]


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


def test_unknown_layout_is_named_by_its_number(convert: Convert) -> None:
    odd = EncodedTensor(dtypes.INT8, (2,), 77, b"ab")
    assert convert.converted(dump(odd), "-t", "bin", name=FILE) == [f"{FILE}.output.0.2.int8.FORMAT_77.bin"]


def test_a_scalar_is_an_array_of_one(convert: Convert) -> None:
    path = convert.add(dump(tensor(np.array(2.5))), FILE)
    for options in ("", "-f ND", "-t bin"):
        assert convert(path, *options.split()).code == 0
    names = ["output.0.1.float32.ND.bin", "output.0.1.npy", "output.0.npy"]
    assert convert.results() == [f"{FILE}.{name}" for name in names]
    assert convert.load(f"{FILE}.output.0.npy").tolist() == [2.5]


def test_buffers_of_other_kinds_go_by_their_number(convert: Convert) -> None:
    header = wire.block(5, wire.number(1, 3) + wire.number(3, 2))
    convert.converted(len(header).to_bytes(8, "little") + header + b"xy", name=FILE)
    assert convert.contents() == {f"{FILE}.buffer3.0.bin": b"xy"}


# Names that are too long for a file system

LONG = "Conv2D." + "n" * 220 + f".5.7.{TIME}"


@pytest.mark.parametrize(
    ("options", "name", "ending"),
    [
        ("", LONG, "output.0.npy"),
        ("-t bin", LONG, "output.0.1.float32.ND.bin"),
        ("-f ND", LONG, "output.0.1.npy"),
        ("", "算" * 82, "output.0.npy"),
    ],
    ids=["npy", "bin", "converted", "long in bytes"],
)
def test_a_long_name_becomes_a_hash(convert: Convert, options: str, name: str, ending: str) -> None:
    full = f"{name}.{ending}"
    assert len(full.encode()) >= 255
    short = uuid.uuid3(uuid.NAMESPACE_DNS, full).hex + os.path.splitext(ending)[1]
    for _ in range(2):
        assert convert.converted(dump(tensor([1.0])), *options.split(), name=name) == sorted([short, "mapping.csv"])
        assert (convert.out / "mapping.csv").read_text() == f"{short},{full}\n"


@pytest.mark.parametrize(("length", "hashed"), [(254, False), (255, True), (256, True)], ids=["254", "255", "256"])
def test_maximum_name_length(length: int, *, hashed: bool) -> None:
    name = "n" * (length - 4) + ".npy"
    assert (shorten(name) != name) is hashed
    assert shorten(name).endswith(".npy")


def test_long_name_that_is_not_utf8(convert: Convert) -> None:
    assert len(convert.converted(dump(tensor([1.0])), name=os.fsdecode(b"\xff" + b"n" * 249))) == 2
    assert (convert.out / "mapping.csv").read_bytes().split(b",")[1].startswith(b"\xffnnn")


@pytest.mark.parametrize("end", ["\n", ""], ids=["whole_line", "no_end_of_line"])
def test_the_mapping_of_a_dump_folder_is_kept(convert: Convert, end: str) -> None:
    convert.out.mkdir()
    (convert.out / "mapping.csv").write_text(f"123,Add.a.1.2.{TIME}{end}")
    convert.converted(dump(tensor([1.0])), name=LONG)
    lines = (convert.out / "mapping.csv").read_text().splitlines()
    assert lines[0] == f"123,Add.a.1.2.{TIME}"
    assert [line.split(",")[1] for line in lines[1:]] == [f"{LONG}.output.0.npy"]


def test_a_name_takes_one_line_of_the_mapping(convert: Convert) -> None:
    name = f"Add.{'n' * 215}\x1b[31m\n1,b.1.2.{TIME}"
    convert.converted(dump(tensor([1.0])), name=name)
    (line,) = (convert.out / "mapping.csv").read_text().splitlines()
    assert "\\x1b[31m\\n1,b" in line


def test_each_folder_has_its_own_mapping(convert: Convert) -> None:
    for folder, count in (("a", 1), ("b", 2)):
        for number in range(count):
            convert.add(dump(tensor([1.0]), tensor([2.0])), LONG.replace("nn", f"n{number}", 1), folder)
    assert convert(convert.source).code == 0
    lines = {folder: (convert.out / folder / "mapping.csv").read_text().splitlines() for folder in "ab"}
    assert {folder: len(found) for folder, found in lines.items()} == {"a": 2, "b": 4}


# Files that are named after something else


def test_results_of_a_hashed_file_carry_the_hash(convert: Convert) -> None:
    """The kind of file is known by its real name: here a slice and a debug file."""
    convert.add(standard_dump(overflow_dump(overflow_record(Overflow()))), "111")
    convert.add(dump(CONV.outputs[0], op_name="net/conv"), "222")
    (convert.source / "mapping.csv").write_text(f"111,Opdebug.Node_OpDebug.1.2.{TIME}\n222,{FILE}\n")
    assert convert(convert.source).code == 0
    assert convert.results() == ["111.output.0.json", "222.output.0.npy"]


def test_a_link_gives_its_own_name(convert: Convert) -> None:
    path = convert.add()
    (convert.source / "link").symlink_to(path)
    assert convert(convert.source / "link").code == 0
    assert convert.results() == ["link.output.0.npy"]


@pytest.mark.parametrize(
    "conv",
    [replace(CONV, outputs=CONV.outputs * 12), replace(CONV, inputs=(), outputs=())],
    ids=["two_digits", "only_blobs"],
)
def test_indices(convert: Convert, conv: EncodedDump) -> None:
    expected = [f"{FILE}.{name}" for name in BLOBS]
    for slot, tensors in (("input", conv.inputs), ("output", conv.outputs)):
        expected += [f"{FILE}.{slot}.{index}.npy" for index in range(len(tensors))]
    assert convert.converted(standard_dump(conv), name=FILE) == sorted(expected)
