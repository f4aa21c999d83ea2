"""`opdiff overflow`: records matched to operators, operators found by their data, and bad input."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dump_files import TIME, add, dump, tensor
from element_types import KNOWN
from old_overflow_records import old_overflow_record
from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.dtypes import largest_finite
from opdiff.measure.tensor_stats import OutOfRange, find_out_of_range
from opdiff.sample.container import Overflow, Unit, overflow_dump, overflow_record, standard_dump
from opdiff.sample.names import DumpName, Task, overflow_name

if TYPE_CHECKING:
    from pathlib import Path

    from command_line import Command, Outcome

GOOD = np.array([1, 2, 3], np.float32)
BAD = np.array([1, np.inf, np.nan], np.float32)


def operator(
    folder: Path, number: int, *, inputs: tuple[object, ...] = (GOOD,), output: object = GOOD, stream: int | None = 3
) -> None:
    values = [tensor(np.asarray(item), dtypes.FLOAT16) for item in (*inputs, output)]
    name = DumpName("Add", f"op{number}", number, stream, TIME + number)
    add(folder, str(name), dump(values[-1], inputs=tuple(values[:-1]), op_name=f"net/op{number}"))


def record(folder: Path, task_id: int, raw: bytes, when: int = 500, task: Task | None = None) -> str:
    return add(folder, str(overflow_name(task_id, 3, TIME + when, task)), standard_dump(overflow_dump(raw)))


def found(opdiff: Command, folder: Path, *options: object) -> tuple[Outcome, dict[str, Any]]:
    path = folder.parent / "report.json"
    outcome = opdiff("overflow", folder, "--json", path, *options)
    assert outcome.code == 0, outcome
    report: dict[str, Any] = json.loads(path.read_text(), parse_constant=pytest.fail)
    return outcome, report


def names(report: dict[str, Any], field: str) -> list[str]:
    return [item["name"] for item in report[field]]


def test_record_is_matched_to_its_operator(tmp_path: Path, opdiff: Command) -> None:
    folder = tmp_path / "a dump"
    for number in range(1, 4):
        operator(folder, number, output=BAD if number == 2 else GOOD)
    record(folder, 2, overflow_record(Overflow(Unit.AIV, task_id=2, stream_id=3, status=(8,))))
    outcome, report = found(opdiff, folder)
    assert report["records"][0]["operator"]["name"] == "net/op2"
    assert report["records"][0]["task"]["unit"] == "AIV"
    assert "AIV, task 2, stream 3, status 0x8" in outcome.out
    assert report["affected"][0]["origin"] == "created by this operator: no input has it"
    assert "output:0   float16    1 NaN, 1 infinite in 3, first at [1]" in outcome.out
    chinese = opdiff("overflow", folder, "--lang", "zh").out
    assert "output:0   float16    3 个元素中有 1 个 NaN, 1 个无穷值\uff0c首个位于 [1]" in chinese


def test_the_summary(tmp_path: Path, opdiff: Command) -> None:
    folder, out = tmp_path / "dump", tmp_path / "out"
    operator(folder, 2, output=np.array([1, 2, 6], np.float32))
    debug = record(folder, 2, overflow_record(Overflow(Unit.AIC, task_id=2, stream_id=3, status=(8,))))
    found(opdiff, folder, "-out", out)
    (summary,) = out.glob("overflow_summary_*.txt")
    stem = f"Add.op2.2.3.{TIME + 2}"
    lines = summary.read_text().splitlines()
    assert lines[:4] == [
        "=" * 49 + "[1]" + "=" * 50,
        "[Add] net/op2",
        " [AIC][TaskId:2][StreamId:3][Status:8]",
        f" [timestamp:{TIME + 500}]",
    ]
    assert lines[4] == f" {stem}.input.0.npy"
    expected = " -[Format: ND] [Shape: (3,)] [Dtype: float16] [Max: 6.0] [Min: 1.0] [Mean: 3.0]"
    assert lines[6:] == [f" {stem}.output.0.npy", expected]
    np.testing.assert_array_equal(np.load(out / f"{stem}.output.0.npy"), [1, 2, 6])
    assert json.loads((out / f"{debug.rpartition('/')[2]}.output.0.json").read_text())["acc_list"]["acc_type"] == "AIC"


def test_old_records_and_those_without_overflow(tmp_path: Path, opdiff: Command) -> None:
    folder = tmp_path / "dump"
    operator(folder, 7)
    record(folder, 7, old_overflow_record(None, Overflow(task_id=7, stream_id=3, status=(1,)), None), 501)
    record(folder, 6, overflow_record(Overflow(task_id=6, stream_id=3, status=(0,))), 500)
    _, report = found(opdiff, folder, "-n", 5)
    assert report["all_records"] == 1
    assert report["records"][0]["task"]["unit"] == "L2 Atomic Add"
    assert report["records"][0]["operator"]["name"] == "net/op7"


def test_the_oldest_records_come_first(tmp_path: Path, opdiff: Command) -> None:
    folder = tmp_path / "dump"
    for number in (4, 5):
        operator(folder, number)
        record(folder, number, overflow_record(Overflow(task_id=number, stream_id=3)), 500 - number)
    assert [r["operator"]["name"] for r in found(opdiff, folder)[1]["records"]] == ["net/op5"]
    assert [r["operator"]["name"] for r in found(opdiff, folder, "-n", 2)[1]["records"]] == ["net/op5", "net/op4"]


def test_a_record_without_a_dump_or_a_stream(tmp_path: Path, opdiff: Command) -> None:
    folder = tmp_path / "dump"
    operator(folder, 1, stream=None)
    record(folder, 1, overflow_record(Overflow(task_id=1, stream_id=3)), 500)
    record(folder, 9, overflow_record(Overflow(task_id=9, stream_id=3)), 501)
    outcome, report = found(opdiff, folder, "-n", 2)
    assert [bool(r["operator"]) for r in report["records"]] == [True, False]
    assert "no dump with these ids" in outcome.out


@pytest.mark.parametrize(
    ("inputs", "origin"),
    [
        ((GOOD, GOOD), "created by this operator: no input has it"),
        ((GOOD, BAD), "inherited from input:1"),
        ((), "possibly inherited: the inputs were not dumped"),
    ],
)
def test_overflow_is_found_by_the_data(
    tmp_path: Path, opdiff: Command, inputs: tuple[object, ...], origin: str
) -> None:
    folder = tmp_path / "dump"
    operator(folder, 1)
    operator(folder, 2, inputs=inputs, output=np.array([1, -65504, 3], np.float32))
    operator(folder, 3, inputs=(BAD,), output=BAD)
    outcome, report = found(opdiff, folder, "-n", 9)
    assert "0 debug records of an overflow" in outcome.out
    assert names(report, "affected") == ["net/op2", "net/op3"]
    assert report["affected"][0]["origin"] == origin
    assert report["affected"][0]["tensors"][-1]["extremes"]["saturated"] == 1


def test_nothing_overflowed(tmp_path: Path, opdiff: Command) -> None:
    operator(tmp_path / "dump", 1)
    outcome, report = found(opdiff, tmp_path / "dump", "-out", tmp_path / "out")
    assert "0 operators with NaN" in outcome.out
    assert (report["records"], report["affected"]) == ([], [])
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("dtype", [dtype for dtype in KNOWN if dtype.kind is dtypes.Kind.FLOAT], ids=str)
def test_largest_value_of_every_float_type(dtype: dtypes.DType) -> None:
    limit = largest_finite(dtype)
    assert limit is not None
    codes = elements.encode(np.array([limit / 2, limit, limit / 2]), dtype)
    assert find_out_of_range(codes, dtype) == OutOfRange(3, 0, 0, 1, 1)


def test_parts_are_merged_in_order() -> None:
    merged = OutOfRange(3).merge(OutOfRange(2, 1, 0, 0, 1)).merge(OutOfRange(4, 0, 2, 1, 0))
    assert merged == OutOfRange(9, 1, 2, 1, 4)
    assert find_out_of_range(np.array([127, -128], np.int8), dtypes.INT8) == OutOfRange(2)


def test_damaged_file(tmp_path: Path, opdiff: Command) -> None:
    folder = tmp_path / "dump"
    operator(folder, 1, output=BAD)
    operator(folder, 2)
    path = folder / f"Add.op2.2.3.{TIME + 2}"
    path.write_bytes(path.read_bytes()[:-3])
    record(folder, 1, b"not a record")
    outcome, report = found(opdiff, folder)
    assert names(report, "affected") == ["net/op1"]
    assert outcome.out.count("not read:") == 2


def test_bad_input(tmp_path: Path, opdiff: Command) -> None:
    assert opdiff("overflow", tmp_path / "nothing").code == 3
    outcome = opdiff("overflow", tmp_path)
    assert (outcome.code, "no dump files here" in outcome.err) == (3, True)
    assert opdiff("overflow").code == 2
    assert opdiff("overflow", tmp_path, "-d", tmp_path).code == 2
    assert opdiff("overflow", tmp_path, "-n", "0").code == 2
