"""Tensors that are hard to compare: at worst their own row has no numbers, and no number is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dump_files import TIME, tensor
from graph_dumps import saved
from made_dumps import DOCUMENTED, Case, assert_measured, describe, numbers, perturbed, rule
from opdiff.core import dtypes
from opdiff.sample.container import EncodedDump, EncodedTensor, standard_dump
from opdiff.sample.names import DumpName, golden_name

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray

GOOD = numbers(4, 6)
OTHER = perturbed(GOOD)


def compared_row(case: Case, target: EncodedTensor | AnyArray, golden: AnyArray, **description: Any) -> dict[str, str]:
    """Compare two tensors, and return their row."""
    return case.compared("-fr", case.one(target, golden, **description)).row("a:output:0")


def write_golden(case: Case, kind: str, name: str, array: AnyArray) -> None:
    (case.npy if kind == "npy" else case.npu_golden)(name, array)


def not_measured(row: dict[str, str]) -> bool:
    return all(row[name] == "NaN" for name in DOCUMENTED) and row["Equal"] == ""


def opaque() -> bytes:
    return standard_dump(EncodedDump(outputs=(EncodedTensor(999, (2, 3), "ND", bytes(24)),)))


VALID_DUMP = standard_dump(EncodedDump(outputs=(tensor(GOOD),)))


# A bad file costs only its row


@pytest.mark.parametrize("golden_kind", ["npy", "npu"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "cannot be read", id="empty file"),
        pytest.param(b"\x08", "cannot be read", id="one byte"),
        pytest.param(b"\xff" * 100, "cannot be read", id="nonsense"),
        pytest.param(VALID_DUMP[:-5], "cannot be read", id="cut short"),
        pytest.param(VALID_DUMP[:20], "cannot be read", id="cut in the header"),
        pytest.param(opaque(), "999", id="unknown element type"),
    ],
)
def test_corrupt_target_file_is_not_reported_as_missing(
    case: Case, content: bytes, message: str, golden_kind: str
) -> None:
    case.npu("good", OTHER)
    case.add(case.target, str(DumpName("Op", "bad", 9, 3, TIME)), content)
    for name in ("good", "bad"):
        write_golden(case, golden_kind, name, GOOD)
    words = ("-fr", case.rules(rule("bad"), rule("good"))) if golden_kind == "npy" else ()
    result = case.compared(*words)
    assert_measured(result.row("good:output:0"), OTHER, GOOD)
    row = result.of("bad")
    assert not_measured(row)
    assert message in row["CompareFailReason"]
    assert "no file" not in row["CompareFailReason"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "cannot be read", id="empty file"),
        pytest.param(saved(GOOD)[:-3], "cannot be read", id="cut short"),
        pytest.param(saved(GOOD)[:30], "cannot be read", id="cut in the header"),
        pytest.param(b"nonsense" * 20, "cannot be read", id="nonsense"),
        pytest.param(saved(np.array([{}, None], dtype=object)), "object", id="objects"),
        pytest.param(saved(np.array(["a", "b"])), "cannot be read", id="texts"),
        pytest.param(saved(np.zeros(3, dtype=[("x", "f4")])), "cannot be read", id="records"),
        pytest.param(saved(np.zeros(24, dtype="M8[s]")), "cannot be read", id="dates"),
    ],
)
def test_bad_golden_file_costs_only_its_row(case: Case, content: bytes, message: str) -> None:
    case.npy("good", GOOD)
    case.npu("bad", GOOD)
    case.npu("good", OTHER)
    case.add(case.golden, golden_name("bad", 0, TIME), content)
    result = case.compared("-fr", case.rules(rule("bad"), rule("good")))
    assert_measured(result.row("good:output:0"), OTHER, GOOD)
    row = result.row("bad:output:0")
    assert not_measured(row)
    assert message in row["CompareFailReason"]
    assert "bad" in row["CompareFailReason"]
    assert "has no file" not in row["CompareFailReason"]


def test_corrupt_golden_dump_costs_only_its_row(case: Case) -> None:
    case.npu("bad", GOOD)
    case.npu("good", OTHER)
    case.npu_golden("good", GOOD)
    case.add(case.golden, str(DumpName("Op", "bad", 9, 3, TIME)), VALID_DUMP[:-1])
    result = case.compared()
    assert_measured(result.row("good:output:0"), OTHER, GOOD)
    assert "the golden file of bad cannot be read" in result.of("bad")["CompareFailReason"]


def test_bad_output_does_not_affect_others(case: Case) -> None:
    case.npu("a", OTHER, OTHER)
    case.npy("a", GOOD)
    case.add(case.golden, golden_name("a", 1, TIME), b"nonsense" * 20)
    result = case.compared("-fr", case.rules(rule("a", outputs=(describe("a", 0), describe("a", 1)))))
    assert_measured(result.row("a:output:0"), OTHER, GOOD)
    assert "cannot be read" in result.row("a:output:1")["CompareFailReason"]


def test_bad_output_of_an_array_target_does_not_affect_others(case: Case) -> None:
    case.add(case.target, golden_name("a", 0, TIME), saved(OTHER))
    case.add(case.target, golden_name("a", 1, TIME), b"nonsense" * 20)
    case.npy("a", GOOD, GOOD)
    rules = case.rules(rule("a", outputs=(describe("a", 0), describe("a", 1))))
    result = case.compared("-qfr", rules)
    assert_measured(result.row("a:output:0"), OTHER, GOOD)
    assert len(result.rows) == 2
    assert "the target file of a cannot be read: a.1." in result.rows[1]["CompareFailReason"]


def test_complex_numbers_are_compared_by_parts_and_only_with_complex_numbers(case: Case) -> None:
    golden = GOOD + 1j * OTHER
    case.npu("good", OTHER)
    case.npu("real", GOOD)
    case.npu("z", tensor(golden + 1j, dtypes.COMPLEX64))
    for name, array in (("good", GOOD), ("real", golden), ("z", golden)):
        case.npy(name, array)
    result = case.compared("-fr", case.rules(rule("real"), rule("z"), rule("good")))
    assert_measured(result.row("good:output:0"), OTHER, GOOD)
    row = result.row("real:output:0")
    assert not_measured(row)
    assert "complex numbers cannot be compared with float32" in row["CompareFailReason"]
    row = result.row("z:output:0")
    assert float(row["MaxAbsoluteError"]) == pytest.approx(1, rel=1e-6)
    assert "complex numbers are compared as their real and imaginary parts" in row["CompareFailReason"]


def test_opaque_output_next_to_a_good_one(case: Case) -> None:
    output = EncodedTensor(999, (2,), "ND", bytes(8))
    case.npu("a", tensor(OTHER), output)
    case.npy("a", GOOD, GOOD)
    result = case.compared("-fr", case.rules(rule("a", outputs=(describe("a", 0), describe("a", 1)))))
    assert_measured(result.row("a:output:0"), OTHER, GOOD)
    assert not_measured(result.row("a:output:1"))
    assert "999" in result.row("a:output:1")["CompareFailReason"]


# Shapes


@pytest.mark.parametrize(
    ("target", "golden"),
    [
        pytest.param((2, 24), (1, 24), id="larger batch"),
        pytest.param((48,), (24,), id="first elements are the golden ones"),
        pytest.param((4, 6), (4, 5), id="wider"),
        pytest.param((4, 5), (4, 6), id="smaller"),
        pytest.param((1, 8, 4, 4), (1, 7, 4, 4), id="more channels"),
    ],
)
@pytest.mark.parametrize("golden_kind", ["npy", "npu"])
def test_tensors_of_different_sizes_are_not_compared(
    case: Case, target: tuple[int, ...], golden: tuple[int, ...], golden_kind: str
) -> None:
    theirs = numbers(*golden)
    ours = np.resize(theirs, target)
    case.npu("a", ours)
    case.npu("good", OTHER)
    write_golden(case, golden_kind, "a", theirs)
    write_golden(case, golden_kind, "good", GOOD)
    words = ("-fr", case.rules(rule("a"), rule("good"))) if golden_kind == "npy" else ()
    result = case.compared(*words)
    row = result.row("a:output:0")
    assert not_measured(row)
    assert str(list(target)) in row["CompareFailReason"]
    assert str(list(golden)) in row["CompareFailReason"]
    assert_measured(result.row("good:output:0"), OTHER, GOOD)


@pytest.mark.parametrize(
    ("shape", "layout", "declared", "order"),
    [
        pytest.param((2, 20, 3, 5), "NC1HWC0", "NCHW", None, id="NC1HWC0 to NCHW"),
        pytest.param((2, 20, 3, 5), "NC1HWC0", "NHWC", (0, 2, 3, 1), id="NC1HWC0 to NHWC"),
        pytest.param((2, 20, 3, 5), "NC1HWC0", "ND", None, id="NC1HWC0 to ND"),
        pytest.param((2, 20, 3, 5), "NC1HWC0", "NHWC", None, id="NC1HWC0 to NCHW, declared NHWC"),
        pytest.param((2, 20, 3, 5), "NHWC", "NCHW", None, id="NHWC to NCHW"),
        pytest.param((20, 35), "FRACTAL_NZ", "ND", None, id="FRACTAL_NZ rank 2"),
        pytest.param((3, 20, 35), "FRACTAL_NZ", "ND", None, id="FRACTAL_NZ rank 3"),
        pytest.param((2, 3, 20, 35), "FRACTAL_NZ", "ND", None, id="FRACTAL_NZ rank 4"),
        pytest.param((2, 2, 3, 20, 35), "FRACTAL_NZ", "ND", None, id="FRACTAL_NZ rank 5"),
        pytest.param((2, 3, 20, 35), "FRACTAL_NZ", "NCHW", None, id="FRACTAL_NZ rank 4 to NCHW"),
        pytest.param((18, 20, 3, 2), "FRACTAL_Z", "NCHW", None, id="FRACTAL_Z"),
        pytest.param((2, 20, 3, 4, 5), "NDC1HWC0", "NCDHW", None, id="NDC1HWC0"),
    ],
)
def test_layouts_are_converted_to_that_of_the_golden(
    case: Case, shape: tuple[int, ...], layout: str, declared: str, order: tuple[int, ...] | None
) -> None:
    values = numbers(*shape)
    golden = values if order is None else values.transpose(order)
    row = compared_row(case, tensor(values, dtypes.FLOAT16, layout), golden, layout=declared)
    assert (row["Equal"], row["Elements"]) == ("YES", str(values.size)), row
    assert row["Shape"] == str(list(golden.shape)).replace(" ", "")
    assert row["DataType"] == "float16"


@pytest.mark.parametrize("other", ["NC1HWC0", "NCHW", "NHWC"])
def test_two_devices_with_different_layouts(case: Case, other: str) -> None:
    values = numbers(2, 20, 3, 5)
    case.npu("a", tensor(values, dtypes.FLOAT16, "NC1HWC0"))
    case.npu_golden("a", tensor(values, dtypes.FLOAT16, other))
    row = case.compared().row("a:output:0")
    assert (row["Equal"], row["Elements"]) == ("YES", str(values.size))


# Numbers


def test_integers_are_compared_as_integers(case: Case) -> None:
    golden = np.array([1 << 60, -(1 << 60), 7])
    row = compared_row(case, tensor(golden + np.array([1, 0, 0]), dtypes.INT64), golden)
    assert row["MaxAbsoluteError"] == "1"
    assert row["Equal"] == "NO"
    assert (row["WorstTarget"], row["WorstGolden"]) == (str((1 << 60) + 1), str(1 << 60))
    assert (row["DataType"], row["DataType#2"]) == ("int64", "int64")


def test_float64_keeps_its_digits_and_its_range(case: Case) -> None:
    golden = np.array([1e300, 1.0, -2.0])
    row = compared_row(case, tensor(golden * np.array([1, 1 + 1e-12, 1]), dtypes.FLOAT64), golden)
    assert float(row["MaxAbsoluteError"]) == pytest.approx(1e-12, rel=1e-3)
    assert float(row["CosineSimilarity"]) == 1
    assert row["Equal"] == "NO"


@pytest.mark.parametrize(
    ("target", "golden", "cosine", "distance", "reason"),
    [
        pytest.param(GOOD, 0 * GOOD, "NaN", "inf", "all data of the golden is zero", id="golden"),
        pytest.param(0 * GOOD, GOOD, "NaN", "1.000000", "all data of the target is zero", id="target"),
        pytest.param(0 * GOOD, 0 * GOOD, "1.000000", "0.000000", "", id="both"),
    ],
)
def test_zeros_are_equal_only_to_zeros(
    case: Case, target: AnyArray, golden: AnyArray, cosine: str, distance: str, reason: str
) -> None:
    row = compared_row(case, target, golden)
    assert (row["CosineSimilarity"], row["RelativeEuclideanDistance"]) == (cosine, distance)
    assert row["Equal"] == ("NO" if reason else "YES")
    assert reason in row["CompareFailReason"]
    assert float(row["MaxAbsoluteError"]) == np.abs(target - golden).max()
    if distance == "inf":
        assert {row[f"{name}RelativeError"] for name in ("Accumulated", "Max", "Mean")} == {"inf"}


def test_nan_and_infinities_are_counted_and_located(case: Case) -> None:
    ours, theirs = OTHER.copy(), GOOD.copy()
    ours[1, 2] = np.nan
    ours[2, 0] = np.inf
    ours[3, 5] = theirs[3, 5] = -np.inf
    theirs[3, 1] = np.nan
    row = compared_row(case, ours, theirs)
    assert row["CosineSimilarity"] == "NaN"
    counts = ("TargetNaN", "TargetInf", "GoldenNaN", "GoldenInf", "SpecialMismatch", "FiniteElements")
    assert [row[name] for name in counts] == ["1", "2", "1", "1", "3", "20"]
    assert row["FirstSpecialMismatch"] == "[1,2]"
    both = np.isfinite(ours) & np.isfinite(theirs)
    x, y = (side[both].astype(np.float64) for side in (ours, theirs))
    cosine = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
    assert float(row["FiniteCosine"]) == pytest.approx(cosine, rel=1e-6)


def test_equal_infinities_are_equal(case: Case) -> None:
    values = GOOD.copy()
    values[0, 0] = np.inf
    row = compared_row(case, values, values)
    assert (row["Equal"], row["SpecialMismatch"], float(row["FiniteCosine"])) == ("YES", "0", 1)


@pytest.mark.parametrize(
    ("values", "dtype", "overflow"),
    [
        pytest.param([65504.0, 1.0], dtypes.FLOAT16, "YES", id="largest float16"),
        pytest.param([np.inf, 1.0], dtypes.FLOAT16, "YES", id="infinite"),
        pytest.param([np.nan, -65504.0], dtypes.FLOAT16, "YES", id="NaN and the largest"),
        pytest.param([65472.0, 1.0], dtypes.FLOAT16, "NO", id="below the largest"),
        pytest.param([], dtypes.FLOAT16, "NO", id="empty"),
        pytest.param([1, 2], dtypes.INT32, "NaN", id="integers"),
    ],
)
def test_overflow(case: Case, values: list[float], dtype: dtypes.DType, overflow: str) -> None:
    array = np.array(values)
    case.npu("good", OTHER)
    case.npy("good", GOOD)
    case.npu("a", tensor(array, dtype))
    case.npy("a", array)
    result = case.compared("-fr", case.rules(rule("a"), rule("good")), "--overflow")
    column = result.header.index("OverFlow")
    assert (result.header[column - 1], result.header[column + 1]) == ("Shape", "CosineSimilarity")
    assert result.row("a:output:0")["OverFlow"] == overflow
    assert_measured(result.row("good:output:0"), OTHER, GOOD)


def test_empty_tensor_is_reported(case: Case) -> None:
    row = compared_row(case, np.zeros((2, 0), np.float32), np.zeros((2, 0), np.float32))
    assert (row["Shape"], row["Elements"], row["CosineSimilarity"]) == ("[2,0]", "0", "NaN")
    assert row["CompareFailReason"] == "the tensor has no elements, there is nothing to measure"


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)], ids=str)
def test_scalars_are_reported(case: Case, shape: tuple[int, ...]) -> None:
    golden = np.full(shape, 2.0, np.float32)
    row = compared_row(case, golden * 1.5, golden)
    assert row["CompareFailReason"] == "this tensor is scalar."
    assert (float(row["CosineSimilarity"]), float(row["MaxAbsoluteError"])) == (1, 1)


def test_bool_tensors_are_measured(case: Case) -> None:
    golden = np.array([True, False, True, True])
    target = np.array([True, True, True, False])
    row = compared_row(case, tensor(target, dtypes.BOOL), golden)
    assert (row["DataType"], row["DataType#2"]) == ("bool", "bool")
    assert_measured(row, target, golden)
    assert row["Equal"] == "NO"


@pytest.mark.parametrize("dtype", [dtypes.BFLOAT16, dtypes.FLOAT16, dtypes.FLOAT64, dtypes.INT8, dtypes.UINT8])
def test_element_types_are_those_of_the_dump(case: Case, dtype: dtypes.DType) -> None:
    golden = np.array([1.0, 2.0, 3.0, 64.0], np.float32)
    row = compared_row(case, tensor(golden, dtype), golden)
    assert (row["DataType"], row["DataType#2"], row["Equal"]) == (dtype.name, "float32", "YES")


# Names


@pytest.mark.parametrize("name", ["=cmd", "+1+1", "-5+3", "@SUM", "=HYPERLINK('x')", "%20", "a;=b"])
def test_names_that_look_like_formulas_are_escaped(case: Case, name: str) -> None:
    """They occur in rule files and golden names; file names of the device have no such characters."""
    case.npu("conv", OTHER)
    case.npy("conv", GOOD)
    rules = case.rules(
        rule(name, "=Type"),
        rule("conv", "+Add", originals=(name, "conv"), outputs=(describe("conv", 0),)),
    )
    result = case.compared("-fr", rules)
    assert_measured(result.row("conv:output:0"), OTHER, GOOD)
    for row in result.rows:
        for title in ("OpType", "NPUDump", "GroundTruth", "TensorIndex", "CompareFailReason", "MatchRule"):
            assert not row[title].startswith(tuple("=+-@%")), (title, row[title])
    assert result.rows[0]["NPUDump"].replace("'", "") == name.replace("'", "")


def test_a_dump_whose_name_begins_with_a_minus(case: Case) -> None:
    case.add(case.target, f"Op.-neg.9.3.{TIME}", standard_dump(EncodedDump(outputs=(tensor(OTHER),))))
    case.npy("-neg", GOOD)
    result = case.compared("-fr", case.rules(rule("-neg")))
    assert_measured(result.row("'-neg:output:0"), OTHER, GOOD)


def test_the_table_is_written_when_nothing_could_be_judged(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("opdiff.judge.comparison_judgement.build_network", fail)
    row = case.compared("-fr", case.one(GOOD, GOOD), code=70).of("a")
    assert row["Equal"] == "YES"
    assert row["Level"] == "not comparable"


@pytest.mark.parametrize("scale", [1e160, 1e300, 1e-160, 1e-307])
def test_an_error_of_any_magnitude_is_measured_and_judged(case: Case, scale: float) -> None:
    target = GOOD.astype(np.float64)
    assert compared_row(case, tensor(target, dtypes.FLOAT64), target * scale)["Level"] == "wrong"
