"""`opdiff op` and `compare -op`: results, files, and errors."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from command_line import Outcome, run
from dump_files import tensor
from made_dumps import Case, describe, numbers, rule
from opdiff.core import dtypes
from opdiff.core.tensor import Slot, TensorKey
from opdiff.workflows.element_diff.files import file_names, write_mapping

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray

HEADER = "NPUDump,GroundTruth,AbsoluteError,RelativeError"


def run_op(case: Case, *options: object, name: str = "a") -> Outcome:
    rules = case.root / "network.json"
    given = ("--rules", rules) if rules.exists() else ()
    return run(case.capsys, "op", name, case.target, case.golden, *given, "-o", case.out, *options)


def json_report(case: Case, *options: object, name: str = "a") -> dict[str, Any]:
    path = case.root / "report.json"
    outcome = run_op(case, "--json", path, *options, name=name)
    assert outcome.code == 0, outcome
    assert all(len(line) <= 80 or "/" in line for line in outcome.out.splitlines())
    found: dict[str, Any] = json.loads(path.read_text(), parse_constant=pytest.fail)
    return found


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_every_element_has_a_row(case: Case) -> None:
    golden = numbers(2, 3, 4, 5)
    target = golden + np.float32(0.5)
    case.one(tensor(target, layout="NC1HWC0"), golden, layout="NCHW", shape=golden.shape)
    json_report(case)
    header, *lines = rows(case.out / "a_output_0_0.csv")
    assert ",".join(header) == f"Index,N C H W,{HEADER}"
    assert len(lines) == golden.size
    for index, line in enumerate(lines):
        at = np.unravel_index(index, golden.shape)
        assert line[:2] == [str(index), " ".join(map(str, at))]
        assert float(line[2]) == target[at]
        assert float(line[3]) == golden[at]
        assert float(line[4]) == 0.5
        assert float(line[5]) == pytest.approx(0.5 / abs(golden[at]))
    np.testing.assert_array_equal(np.load(case.out / "a_output_0.npy"), target)
    np.testing.assert_array_equal(np.load(case.out / "a_output_0_golden.npy"), golden)


def test_the_summary_has_the_documented_lines(case: Case) -> None:
    case.one(np.array([1, 2, 3], np.float32), np.array([1, 2, 4], np.float32))
    json_report(case)
    assert (case.out / "a_output_0_summary.txt").read_text().splitlines() == [
        "TotalCount:3", "NPUDump:a", "GroundTruth:a", "Format:N C H W", "MinAbsoluteError:0.000000",
        "MaxAbsoluteError:1.000000", "MinRelativeError:0.000000", "MaxRelativeError:0.250000",
    ]  # fmt: skip


def test_tables_are_limited_and_old_ones_removed(case: Case) -> None:
    golden = np.arange(25_000, dtype=np.float32)
    case.one(golden, golden)
    run_op(case, "-ml", 10000)
    assert [len(rows(path)) for path in tables(case)] == [10001, 10001, 5001]
    run_op(case)
    assert [path.name for path in tables(case)] == ["a_output_0_0.csv"]
    run_op(case, "--no-tables")
    assert tables(case) == []


def tables(case: Case) -> list[Path]:
    return sorted(case.out.glob("a_output_0_[0-9]*.csv"), key=lambda path: int(path.stem.rpartition("_")[2]))


def test_non_finite_errors_come_first(case: Case) -> None:
    golden = np.ones(100, np.float32)
    target = golden.copy()
    target[[7, 50, 60]] = 1e30, np.nan, -np.inf
    target[80], golden[80] = np.nan, np.nan
    case.one(target, golden)
    detail = json_report(case)["detail"]
    assert [item["index"] for item in detail["worst_absolute"]] == [50, 60, 7]
    assert [item["absolute"] for item in detail["worst_absolute"]][:2] == ["nan", "inf"]
    assert (detail["unequal"], detail["not_finite"]) == (3, 2)
    _, *lines = rows(case.out / "a_output_0_absolute_error_topn.csv")
    assert [line[0] for line in lines] == ["50", "60", "7"]


@pytest.mark.parametrize(
    ("dtype", "ours", "theirs"),
    [
        (dtypes.UINT8, 1, 2),
        (dtypes.INT8, -128, 127),
        (dtypes.INT64, -(1 << 63), (1 << 63) - 1),
        (dtypes.UINT64, 0, (1 << 64) - 1),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_integers_do_not_wrap(case: Case, dtype: dtypes.DType, ours: int, theirs: int) -> None:
    target, golden = (np.array([value, 1], dtype.decoded) for value in (ours, theirs))
    case.one(tensor(target, dtype), golden)
    (worst,) = json_report(case)["detail"]["worst_absolute"]
    assert worst["absolute"] == theirs - ours
    assert rows(case.out / "a_output_0_0.csv")[1][2:5] == [str(ours), str(theirs), str(theirs - ours)]


def test_equal_tensors_have_no_worst_elements(case: Case) -> None:
    golden = numbers(3, 4)
    case.one(golden, golden)
    report = json_report(case)
    assert report["detail"]["worst_absolute"] == []
    assert report["explanations"] == []
    assert [axis["worst"] for axis in report["detail"]["axes"]] == [[], []]


def test_the_channel_that_carries_the_error_is_named(case: Case) -> None:
    golden = numbers(1, 32, 8, 8)
    target = golden.copy()
    target[:, 17] += 1
    target[0, 3, 0, 0] += 1
    case.one(tensor(target, dtypes.FLOAT16, "NC1HWC0"), golden, layout="NCHW", shape=golden.shape)
    outcome = run_op(case)
    assert "channel 17 of axis 1 has 98% of the squared error" in outcome.out


def test_slice_with_nan_is_named(case: Case) -> None:
    golden = numbers(40, 16)
    target = golden.copy()
    target[11, 3:5] = np.nan
    case.one(target, golden)
    assert "slice 11 of axis 0 has 2 of the non-finite errors" in run_op(case).out


def test_explanation_is_printed(case: Case) -> None:
    golden = numbers(2, 5, 7)
    case.one(golden.transpose(0, 2, 1).reshape(golden.shape), golden)
    report = json_report(case)
    (found,) = report["explanations"]
    assert (found["kind"], found["after"]) == ("axis order", 0.0)
    assert "explanation: the axes are stored in the order (0, 2, 1) instead of (0, 1, 2)" in run_op(case).out


def test_swapped_inputs(case: Case) -> None:
    first, second = numbers(4, 5, seed=1), numbers(4, 5, seed=2)
    case.npu("a", first + second, inputs=(second, first))
    case.npu_golden("a", first + second, inputs=(first, second))
    (found,) = json_report(case, name="a:input:0")["explanations"]
    assert found["kind"] == "input order"
    assert "input:1" in found["reason"]


def test_complex_tensors_have_an_axis_of_parts(case: Case) -> None:
    golden = np.array([1 + 1j, 2 + 2j], np.complex64)
    case.one(tensor(golden + np.complex64(3j), dtypes.COMPLEX64), golden)
    detail = json_report(case)["detail"]
    assert detail["shape"] == [2, 2]
    assert [item["at"] for item in detail["worst_absolute"]] == [[0, 1], [1, 1]]
    assert np.load(case.out / "a_output_0.npy").dtype == np.complex64


@pytest.mark.parametrize("values", [np.float32(2.5), np.zeros((0, 3), np.float32)], ids=["scalar", "empty"])
def test_small_tensors(case: Case, values: AnyArray) -> None:
    case.one(np.asarray(values), np.asarray(values))
    assert json_report(case)["detail"]["count"] == np.size(values)


def test_other_spellings_of_the_name(case: Case) -> None:
    golden = numbers(2, 3)
    case.npu("net/conv_relu", golden)
    case.npy("net/conv", golden)
    case.rules(rule("net/conv_relu", originals=("net/conv",), outputs=(describe("net/conv", 0),)))
    for name in ("net/conv_relu", "net_conv_relu", "net/conv", "net/conv_relu:output:0"):
        assert json_report(case, name=name)["key"] == {"op": "net/conv_relu", "slot": "output", "index": 0}


def test_paths_with_blanks(case: Case) -> None:
    case.target, case.golden, case.out = (case.root / f"a {name}" for name in ("target", "golden", "new out"))
    case.one(numbers(2, 3), numbers(2, 3))
    json_report(case)
    assert (case.out / "a_output_0.npy").exists()


def test_too_long_name_becomes_a_hash(case: Case) -> None:
    name = "block/" * 39 + "conv.1"
    names = file_names(str(case.root), TensorKey(name, Slot.OUTPUT, 0))
    assert len(names.stem) == 32
    assert file_names(str(case.root), TensorKey(name, Slot.OUTPUT, 1)).stem != names.stem
    write_mapping(names)
    write_mapping(names)
    expected = f"{names.stem},{name.replace('/', '_')}_output_0\n"
    assert (case.root / "simple_op_mapping.csv").read_text() == expected


# The documented form


def test_compare_with_op(case: Case) -> None:
    golden = numbers(4, 5)
    rules = case.one(golden * 2, golden)
    outcome = case.run("-fr", rules, "-op", "a", "-n", 3, "-ml", 10000, "--output_tensor", 0)
    assert outcome.code == 0, outcome
    assert len(rows(case.out / "a_output_0_absolute_error_topn.csv")) == 4
    assert len(rows(case.out / "a_output_0_0.csv")) == 21
    assert not case.results()
    outcome = case.run("-fr", rules, "--op_name", "a", "--ignore_single_op_result")
    assert outcome.code == 0
    assert not (case.out / "a_output_0_0.csv").exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("-n", 5), "-n requires -op NAME"),
        (("--ignore_single_op_result",), "--ignore-single-op-result requires -op NAME"),
        (("-i", 0), "-i requires -op NAME"),
        (("-op", "a", "-map"), "-op cannot be combined with -r, -s and -map"),
        (("-op", "a", "--output_tensor", 3), "a has no output 3; available: output:0"),
        (("-op", "a", "-i", 0), "a has no input 0; available: output:0"),
        (("-op", "a", "-o", 1), "for output 1 of the operator use --output-tensor 1"),
    ],
)
def test_contradicting_options(case: Case, options: tuple[object, ...], text: str) -> None:
    rules = case.one(numbers(2, 3), numbers(2, 3))
    assert text in case.refused("-fr", rules, *options, code=2)


@pytest.mark.parametrize("option", [("-n", "0"), ("-n", "10001"), ("-ml", "9999"), ("-ml", "x"), ("-i", "x")])
def test_numbers_out_of_range(case: Case, option: tuple[str, str]) -> None:
    rules = case.one(numbers(2, 3), numbers(2, 3))
    assert case.run("-fr", rules, "-op", "a", *option).code == 2


# Bad input


def test_unknown_name_gets_suggestions(case: Case) -> None:
    for name in ("conv1", "conv2", "relu"):
        case.npu(name, numbers(2, 3))
        case.npu_golden(name, numbers(2, 3))
    outcome = run_op(case, name="conv3")
    assert outcome.code == 2
    assert "there is no operator 'conv3'; did you mean conv2 or conv1?" in outcome.err
    assert "among the 3 that can be compared" in run_op(case, name="zzz").err


def test_truncated_file(case: Case) -> None:
    path = case.npu("a", numbers(40, 50))
    case.npu_golden("a", numbers(40, 50))
    path.write_bytes(path.read_bytes()[:-100])
    outcome = run_op(case)
    assert outcome.code == 3
    assert len(outcome.err.splitlines()) == 1
    assert not case.leftovers()


def test_an_empty_directory(case: Case) -> None:
    case.target.mkdir()
    case.npu_golden("a", numbers(2, 3))
    outcome = run_op(case)
    assert outcome.code == 3
    assert "no files here" in outcome.err
    assert run(case.capsys, "op", "a", case.root / "nothing", case.golden).code == 3


def test_incompatible_shapes(case: Case) -> None:
    case.one(numbers(2, 3), numbers(3, 3))
    outcome = run_op(case)
    assert outcome.code == 3
    assert "[2, 3]" in outcome.err
