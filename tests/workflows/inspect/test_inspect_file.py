"""`opdiff inspect FILE`: contents of one file."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dump_files import TIME, add, dump, tensor
from nano_files import nano_dump
from opdiff.core import dtypes
from opdiff.sample.container import (
    EncodedDump,
    EncodedTensor,
    OriginalTensor,
    Overflow,
    overflow_dump,
    overflow_record,
    protobuf_dump,
    standard_dump,
)
from opdiff.sample.names import DumpName
from sliced_dumps import Cuts, automatic_slices

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from command_line import Command

FILE = f"Conv2D.net_conv.5.7.{TIME}"
CONV = EncodedDump(
    inputs=(
        tensor([-1.0, 300.0], address=0x1000),
        tensor(np.ones((16, 3, 1, 1)), dtypes.FLOAT16, "FRACTAL_Z", groups=4),
    ),
    outputs=(tensor(np.arange(12.0).reshape(1, 3, 2, 2), dtypes.FLOAT16, "NC1HWC0", address=0x2000),),
    buffers=(b"abc",),
    spaces=(b"log", b""),
    op_name="net/conv",
    dump_time=TIME + 1,
)


def rows(text: str) -> dict[str, list[str]]:
    """Return the words of the printed lines, by their first word, which is the same in several tables."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        for word in line.split()[:1]:
            found.setdefault(word, []).extend(line.split()[1:])
    return found


def inspect_json(opdiff: Command, path: object, *options: str) -> Any:
    outcome = opdiff("inspect", path, "--json", *options)
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.json


# Text


def test_a_file_is_described(tmp_path: Path, opdiff: Command) -> None:
    path = add(tmp_path, FILE, standard_dump(CONV))
    outcome = opdiff("inspect", path, "-v")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    size = len(standard_dump(CONV))
    assert lines[:7] == [
        f"{path}: standard dump, {size} B",
        "  operator: net/conv",
        "  type: Conv2D",
        "  version: 2.0",
        f"  time: {TIME + 1} (2022-12-16 23:49:27 UTC)",
        "  buffers: 3 B",
        "  spaces: 3 B, 0 B",
    ]
    found, weights = rows(outcome.out), len(CONV.inputs[1].payload)
    assert found["tensor"] == ["type", "layout", "shape", "origin", "shape", "bytes", "offset", "address"]
    assert found["input:0"] == ["float32", "ND", "[2]", "[2]", "8", str(size - 6 - 128 - weights - 8), "0x1000"]
    assert found["input:1"][:3] == ["float16", "FRACTAL_Z", "groups=4"]
    assert found["output:0"] == [
        "float16", "NC1HWC0", "[1,1,2,2,16]", "[1,3,2,2]", "128", str(size - 6 - 128), "0x2000",
    ]  # fmt: skip


def test_statistics_are_those_of_the_logical_tensor(tmp_path: Path, opdiff: Command) -> None:
    """Padding is ignored; otherwise the minimum would be 0."""
    path = add(tmp_path, FILE, dump(tensor(np.arange(1.0, 13).reshape(1, 3, 2, 2), dtypes.FLOAT16, "NC1HWC0")))
    outcome = opdiff("inspect", path, "--stats")
    found = rows(outcome.out)
    assert found["tensor"][-6:] == ["min", "max", "mean", "zeros", "NaN", "inf"]
    assert found["output:0"][-6:] == ["1", "12", "6.5", "0", "0", "0"]
    assert "padding" not in outcome.out


WITH_PADDING = "the statistics include padding"
TILED = tensor(np.ones((1, 3, 2, 2)), dtypes.FLOAT16, "NC1HWC0")


@pytest.mark.parametrize(
    ("stored", "note"),
    [
        (replace(TILED, origin_shape=()), WITH_PADDING),
        (replace(TILED, origin_shape=(7, 7)), WITH_PADDING),
        (replace(tensor([1.0, 2.0]), layout="YUV"), WITH_PADDING),
        (TILED, None),
        (replace(tensor([1.0, 2.0]), origin_shape=()), None),
    ],
    ids=["no_origin_shape", "wrong_origin_shape", "unknown_layout", "whole", "plain"],
)
def test_statistics_with_padding_have_a_note(
    tmp_path: Path, opdiff: Command, stored: EncodedTensor, note: str | None
) -> None:
    path = add(tmp_path, FILE, dump(stored))
    (found,) = inspect_json(opdiff, path, "--stats")["tensors"]
    assert found["notes"] == ([note] if note else [])
    assert found["statistics"]["maximum"] == (1.0 if "NC1HWC0" in str(stored.layout) else 2.0)
    printed = opdiff("inspect", path, "--stats").out
    assert (f"  output:0: {WITH_PADDING}\n" in printed) is bool(note)


def test_tensor_without_statistics_has_a_problem(tmp_path: Path, opdiff: Command) -> None:
    path = add(
        tmp_path,
        FILE,
        dump(
            tensor([1.0], dtypes.COMPLEX64),
            EncodedTensor(dtypes.STRING, (3,), "ND", b"abc"),
            EncodedTensor(dtypes.FLOAT32, (3,), "ND", b"1234"),
            tensor([4.0]),
        ),
    )
    outcome = opdiff("inspect", path, "--stats")
    assert outcome.code == 0
    assert outcome.out.splitlines()[-3:] == [
        "  output:0: element type complex64: complex numbers have no minimum and maximum",
        "  output:1: element type string: strings are not numbers",
        "  output:2: shape [3] needs 3 elements of float32, but 1 are stored",
    ]
    assert rows(outcome.out)["output:3"][-6:-3] == ["4", "4", "4"]


def test_large_integers_are_shown_exactly(tmp_path: Path, opdiff: Command) -> None:
    path = add(tmp_path, FILE, dump(tensor(np.array([-(2**63), 2**63 - 1]), dtypes.INT64)))
    assert rows(opdiff("inspect", path, "--stats").out)["output:0"][-6:-3] == [
        str(-(2**63)),
        str(2**63 - 1),
        "-0.5",
    ]


@pytest.mark.parametrize(
    ("encode", "container"), [(standard_dump, "standard"), (protobuf_dump, "protobuf"), (nano_dump, "nano")]
)
def test_containers(tmp_path: Path, opdiff: Command, encode: Callable[[EncodedDump], bytes], container: str) -> None:
    simple = EncodedDump(outputs=(replace(tensor([1.0]), original=OriginalTensor("first")),), version="1.5")
    path = add(tmp_path, FILE, encode(simple))
    assert opdiff("inspect", path).out.startswith(f"{path}: {container} dump, ")
    found = inspect_json(opdiff, path)
    assert (found["container"], found["op_type"], found["op_name"]) == (container, "Conv2D", "net_conv")
    assert found["dump_time"] == TIME
    assert found["version"] == ("1" if container == "nano" else "1.5")
    assert found["tensors"][0]["name"] == ("first" if container == "nano" else "")


@pytest.mark.parametrize("name", ["golden.0.npy", "a.npz"])
def test_numpy_files(tmp_path: Path, opdiff: Command, name: str) -> None:
    if name.endswith("z"):
        np.savez(tmp_path / name, first=np.eye(2), second=np.arange(3))
    else:
        np.save(tmp_path / name, np.eye(2))
    found = inspect_json(opdiff, tmp_path / name, "--stats")
    assert found["container"] == name[-3:]
    assert found["tensors"][0]["statistics"]["mean"] == 0.5
    assert [tensor["name"] for tensor in found["tensors"]] == (["first", "second"] if name.endswith("z") else [""])


def test_a_numpy_file_that_lost_its_type(tmp_path: Path, opdiff: Command) -> None:
    np.save(tmp_path / "gold.0.npy", np.array([0x3F80, 0xC120], "<u2").view("V2"))
    outcome = opdiff("inspect", tmp_path / "gold.0.npy", "--stats")
    assert rows(outcome.out)["output:0"][0] == "bfloat16"
    assert rows(outcome.out)["output:0"][-6:-3] == ["-10", "1", "-4.5"]
    assert "the element type has no name in NumPy (V2); bfloat16 is assumed" in outcome.out


def test_a_slice_has_its_own_shape(tmp_path: Path, opdiff: Command) -> None:
    whole = EncodedDump(outputs=(tensor(np.arange(10.0).reshape(2, 5)),))
    files = automatic_slices(DumpName("Conv2D", "conv", 3, 4, TIME), whole, Cuts(((1, 2),)))
    path = add(tmp_path, files[1].name, files[1].content)
    assert inspect_json(opdiff, path)["tensors"][0]["shape"] == [2, 2]


def test_overflow_records_are_shown(tmp_path: Path, opdiff: Command) -> None:
    record = overflow_record(Overflow(task_id=3, pc_start=0x1000))
    path = add(tmp_path, f"Opdebug.Node_OpDebug.3.2.{TIME}", standard_dump(overflow_dump(record)))
    (found,) = inspect_json(opdiff, path)["records"]
    assert found["acc_list"]["data"]["pc_start"] == "0x1000"
    assert '"task_id": 3' in opdiff("inspect", path).out


HEADINGS = "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Nan Count\n"


def test_statistics_of_the_runtime(tmp_path: Path, opdiff: Command) -> None:
    lines = HEADINGS + "Input,0,8,float16,NCHW,1x4,1.5,-2,0\nOutput,0,8,float16,ND,4,inf,nan,NA\n"
    path = add(tmp_path, f"{FILE}.csv", lines.encode())
    outcome = opdiff("inspect", path)
    assert outcome.out.splitlines()[0] == f"{path}: statistics instead of data"
    assert rows(outcome.out)["input:0"] == ["float16", "NCHW", "[1,4]", "1.5", "-2", "0"]
    assert rows(outcome.out)["output:0"] == ["float16", "ND", "[4]", "inf", "nan"]
    values = [line["values"] for line in inspect_json(opdiff, path)["tensors"]]
    assert values[0] == [["Max Value", 1.5], ["Min Value", -2.0], ["Nan Count", 0.0]]
    assert values[1] == [["Max Value", "inf"], ["Min Value", "nan"], ["Nan Count", None]]


def test_statistics_without_lines(tmp_path: Path, opdiff: Command) -> None:
    outcome = opdiff("inspect", add(tmp_path, f"{FILE}.csv", HEADINGS.encode()))
    assert (outcome.code, outcome.err) == (0, "")


def test_a_file_without_tensors(tmp_path: Path, opdiff: Command) -> None:
    path = add(tmp_path, FILE, dump(op_name="nothing"))
    outcome = opdiff("inspect", path, "--stats")
    assert (outcome.code, outcome.err) == (0, "")
    assert "  operator: nothing\n" in outcome.out


def test_long_shape_is_shortened(tmp_path: Path, opdiff: Command) -> None:
    path = add(tmp_path, FILE, dump(EncodedTensor(dtypes.INT8, (1,) * 1000, "ND", b"1")))
    outcome = opdiff("inspect", path)
    assert f"[{','.join('1' * 16)},… 1000 axes]" in outcome.out


def test_many_tensors_are_counted(tmp_path: Path, opdiff: Command) -> None:
    path = add(tmp_path, FILE, dump(*[EncodedTensor(dtypes.INT8, (1,), "ND", b"1")] * 1005))
    outcome = opdiff("inspect", path)
    assert outcome.out.endswith("… and 5 more tensors; --json lists them all\n")
    assert len(opdiff("inspect", path, "--json").json["tensors"]) == 1005


def test_contradictions_come_first(tmp_path: Path, opdiff: Command) -> None:
    damaged = replace(CONV.outputs[0], dtype=dtypes.INT8, payload=CONV.outputs[0].payload * 2)
    path = add(tmp_path, FILE, standard_dump(replace(CONV, outputs=(damaged,))))
    lines = opdiff("inspect", path).out.splitlines()
    assert lines[1].startswith("  doubtful: output:0: its data has 256 bytes, of which")
    (problem,) = [found for found in inspect_json(opdiff, tmp_path)["findings"] if found["code"] == "contradictory"]
    assert problem["severity"] == "error"


# JSON

FILE_FIELDS = {
    "path", "nbytes", "container", "op_type", "op_name", "version", "dump_time", "tensors", "buffers", "spaces",
    "records",
}  # fmt: skip


def test_json_is_complete(tmp_path: Path, opdiff: Command) -> None:
    path = add(tmp_path, FILE, standard_dump(CONV))
    found = inspect_json(opdiff, path)
    assert set(found) == FILE_FIELDS
    size = len(standard_dump(CONV))
    assert found["tensors"][2] == {
        "slot": "output",
        "index": 0,
        "name": "",
        "dtype": "float16",
        "layout": "NC1HWC0",
        "shape": [1, 1, 2, 2, 16],
        "origin_shape": [1, 3, 2, 2],
        "groups": 1,
        "offset": size - 6 - 128,
        "nbytes": 128,
        "address": 0x2000,
        "notes": [],
        "statistics": None,
        "problem": "",
        "doubts": [],
    }
    assert (found["buffers"], found["spaces"]) == ([3], [3, 0])


def test_statistics_in_json(tmp_path: Path, opdiff: Command) -> None:
    path = add(
        tmp_path, FILE, dump(tensor([np.nan, np.inf, 0.0, 2.0]), tensor([np.nan]), tensor([1e308] * 9, dtypes.FLOAT64))
    )
    first, second, third = (found["statistics"] for found in inspect_json(opdiff, path, "--stats")["tensors"])
    assert first == {"count": 4, "minimum": 0.0, "maximum": 2.0, "mean": 1.0, "zeros": 1, "nans": 1, "infs": 1}
    assert (second["minimum"], second["mean"], second["nans"]) == (None, None, 1)
    assert third["mean"] == 1e308


def test_names_that_are_not_utf8(tmp_path: Path, opdiff: Command) -> None:
    path = add(tmp_path, os.fsdecode(b"bad\xff"), standard_dump(CONV))
    assert inspect_json(opdiff, path)["path"] == path
    assert opdiff("inspect", path).out.startswith(f"{tmp_path}/bad\\udcff: ")


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        (1671234567890123, "1671234567890123 (2022-12-16 23:49:27 UTC)"),
        (20240115103052, "20240115103052 (2024-01-15 10:30:52)"),
        (20240115103052789, "20240115103052789 (2024-01-15 10:30:52)"),
        (20241315103052, "20241315103052"),
        (2**64 - 1, "18446744073709551615"),
    ],
    ids=["microseconds", "date", "date to the millisecond", "no date", "absurd"],
)
def test_times(tmp_path: Path, opdiff: Command, time: int, shown: str) -> None:
    path = add(tmp_path, "a", standard_dump(replace(CONV, dump_time=time)))
    assert f"  time: {shown}\n" in opdiff("inspect", path).out


# Errors


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", ": the file is empty; the dump was interrupted or the disk was full\n"),
        (dump(tensor([1.0]))[:-1], ": 4 bytes of data start here"),
    ],
    ids=["empty", "cut_off"],
)
@pytest.mark.parametrize("options", [[], ["--json"], ["--stats"]], ids=["text", "json", "stats"])
def test_unreadable_files(tmp_path: Path, opdiff: Command, content: bytes, problem: str, options: list[str]) -> None:
    path = add(tmp_path, FILE, content)
    outcome = opdiff("inspect", path, *options)
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err.startswith(f"opdiff: {path}")
    assert problem in outcome.err


@pytest.mark.parametrize("path", ["/dev/null", "/nonexistent"])
def test_missing_file(opdiff: Command, path: str) -> None:
    outcome = opdiff("inspect", path)
    problem = {"/dev/null": "not a regular file", "/nonexistent": "no such file or directory"}[path]
    assert (outcome.code, outcome.out, outcome.err) == (3, "", f"opdiff: {path}: {problem}\n")
