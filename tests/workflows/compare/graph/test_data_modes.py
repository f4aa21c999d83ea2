"""Data, statistics and checksums: documented columns, also for special numbers."""

from __future__ import annotations

import json
import math
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from graph_dumps import STAMP, TIME, GraphCase, floats, saved
from opdiff.core import dtypes
from opdiff.report.saved_json import load
from opdiff.sample.container import encode_tensor
from opdiff.sample.graph_text import TextNode
from opdiff.sample.names import fx_name

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray

VALUES = np.random.default_rng(0).uniform(1, 2, (5, 7)).astype(np.float32)
SIDES = """token_id data_id golden_data_path golden_op_type golden_dtype golden_shape golden_max_value
golden_min_value golden_mean_value my_data_path my_op_type my_dtype my_shape my_max_value my_min_value my_mean_value"""
FURTHER = """cosine_similarity max_relative_error mean_relative_error max_absolute_error mean_absolute_error
kl_divergence relative_euclidean_distance cmp_fail_reason match_rule confidence color"""
HEADS = {
    "real": "Cosine,EucDist,MaxAbsErr,MaxRelativeErr,One Thousandth Err Ratio,Five Thousandth Err Ratio",
    "statistics": (
        "Max diff,Min diff,Mean diff,L2norm diff,MaxRelativeErr,MinRelativeErr,MeanRelativeErr,NormRelativeErr"
    ),
    "md5": "NPU MD5,BENCH MD5",
}


@pytest.mark.parametrize("mode", HEADS)
def test_every_column_is_there_once_and_those_of_each_document_in_order(case: GraphCase, mode: str) -> None:
    case.one(VALUES, VALUES)
    table = case.table("--data_mode", mode)
    results = ["Requires_grad Consistent", "Result", "Accuracy Reached or Not", "Err_message"]
    names = ["API Name", "Stack Info", "Data Name"]
    assert table.header == [*names, *SIDES.split(), *HEADS[mode].split(","), *results, *FURTHER.split()]
    assert len(set(table.header)) == len(table.header)
    row = table.of("Add.output.0")
    assert (row["Requires_grad Consistent"], row["Stack Info"]) == ("N/A", "N/A")
    assert row["Data Name"].startswith("[Add.Add.1.6.1706596911000001,outputs,0, add-aten.add.Tensor.OUTPUT.0.")
    assert (row["my_op_type"], row["golden_op_type"]) == ("Add", "aten.add.Tensor")
    assert table.path.name.startswith(f"msprobe_cmp_report_rank0_{'' if mode == 'real' else mode + '_'}2")


def test_metrics_of_real_data(case: GraphCase) -> None:
    target = VALUES * np.linspace(1, 1.02, VALUES.size).reshape(VALUES.shape).astype(np.float32)
    case.one(target, VALUES)
    row = case.table().of("Add.output.0")
    x, y = target.astype(np.float64).ravel(), VALUES.astype(np.float64).ravel()
    error = np.abs(x - y)
    p, q = (np.exp(side - side.max()) / np.exp(side - side.max()).sum() for side in (y, x))
    expected = {
        "Cosine": x @ y / np.linalg.norm(x) / np.linalg.norm(y),
        "EucDist": np.linalg.norm(x - y),
        "MaxAbsErr": error.max(),
        "MaxRelativeErr": (error / y).max(),
        "One Thousandth Err Ratio": np.mean(error / y < 0.001),
        "Five Thousandth Err Ratio": np.mean(error / y < 0.005),
        "mean_relative_error": (error / y).mean(),
        "mean_absolute_error": error.mean(),
        "max_absolute_error": error.max(),
        "kl_divergence": np.sum(p * np.log(p / q)),
        "relative_euclidean_distance": np.linalg.norm(x - y) / np.linalg.norm(y),
        "my_max_value": x.max(),
        "golden_min_value": y.min(),
        "golden_mean_value": y.mean(),
    }
    for name, value in expected.items():
        assert float(row[name]) == pytest.approx(value, rel=1e-7), name
    assert (row["Result"], row["Accuracy Reached or Not"], row["Err_message"]) == ("FAIL", "Yes", "")
    assert (row["my_dtype"], row["golden_shape"]) == ("torch.float32", "[5, 7]")


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("target", "golden", "cosine", "relative", "result"),
    [
        ([1, 2], [1, 2], "1.0", "0.0", "PASS"),
        ([0, 2], [0, 2], "1.0", "0.0", "PASS"),
        ([1, 2], [0, 2], "0.8944271909999159", "inf", "FAIL"),
        ([0, 0], [0, 0], "1.0", "0.0", "PASS"),
        ([0, 0], [1, 2], "NaN", "1.0", "FAIL"),
        ([NAN, 2], [1, 2], "NaN", "NaN", "FAIL"),
        ([INF, 2], [-INF, 2], "NaN", "NaN", "FAIL"),
        ([NAN, 2, 3], [NAN, 2, 3], "1.0", "0.0", "PASS"),
        ([INF, NAN], [INF, NAN], "1.0", "0.0", "PASS"),
        ([3], [3], "N/A", "0.0", "PASS"),
        ([3], [4], "N/A", "0.25", "FAIL"),
        ([], [], "N/A", "N/A", "PASS"),
    ],
)
def test_special_numbers(
    case: GraphCase, target: list[float], golden: list[float], cosine: str, relative: str, result: str
) -> None:
    case.one(floats(target), floats(golden))
    outcome = case.run()
    assert outcome.code == 0, outcome
    row = case.table().of("Add.output.0")
    assert (row["Cosine"], row["MaxRelativeErr"], row["Result"]) == (cosine, relative, result)


def test_scalar_has_no_cosine_and_no_shares(case: GraphCase) -> None:
    case.one(floats(2), floats(2))
    row = case.table().of("Add.output.0")
    assert [row[name] for name in HEADS["real"].split(",")] == ["N/A", "N/A", "0.0", "0.0", "N/A", "N/A"]
    assert (row["Result"], row["my_shape"]) == ("PASS", "[]")


def test_statistics_of_data(case: GraphCase) -> None:
    case.one(VALUES * 1.25, VALUES)
    row = case.table("--data_mode", "statistics").of("Add.output.0")
    assert float(row["Max diff"]) == pytest.approx(0.25 * VALUES.max(), rel=1e-6)
    assert float(row["L2norm diff"]) == pytest.approx(0.25 * np.linalg.norm(VALUES), rel=1e-6)
    assert float(row["MeanRelativeErr"].removesuffix("%")) == pytest.approx(25, rel=1e-5)
    assert row["MaxRelativeErr"].endswith("%")
    assert (row["Result"], row["cosine_similarity"], row["color"]) == ("FAIL", "", "yellow")


@pytest.mark.parametrize(
    ("target", "golden", "difference", "relative", "result"),
    [
        ([1.0, 2], [1.0, 2], "0", "0", "PASS"),
        ([1.0, 2], [1.0, 0], "N/A", "N/A", "FAIL"),
        ([NAN, 2], [1.0, 2], "NaN", "NaN", "FAIL"),
        ([NAN, 2], [NAN, 2], "0", "0", "PASS"),
        ([INF, 2], [1.0, 2], "inf", "inf", "FAIL"),
        ([1.0, 2], [INF, 2], "-inf", "-inf", "FAIL"),
        ([-5.0, 1], [-5.0, 0.0], "1.0", "inf", "FAIL"),
        ([-5.0, 0.001], [-5.0, 0.0], "0.0010000000474974513", "inf", "PASS"),
    ],
)
def test_special_statistics(
    case: GraphCase, target: list[float], golden: list[float], difference: str, relative: str, result: str
) -> None:
    case.one(floats(target), floats(golden))
    if difference == "N/A":
        # Statistics that the golden lacks cannot be compared.
        table = "Input/Output,Index,Data Type,Shape,Min Value\nOutput,0,DT_FLOAT,2,1\n"
        case.text(TextNode("Add", "Add"), root=case.off)
        case.add(
            case.off / "worldsize1_global_rank0/20240130064151/0/graph_1_0/1/0" / f"Add.Add.1.6.{TIME}.csv",
            table.encode(),
        )
        row = case.table(golden=case.off).of("Add.output.0")
        assert (row["Max diff"], row["Min diff"], row["Result"]) == ("N/A", "0", "PASS")
        return
    row = case.table("--data_mode", "statistics").of("Add.output.0")
    assert (row["Max diff"], row["MaxRelativeErr"], row["Result"]) == (difference, relative, result)


def test_statistics_files_of_the_runtime(case: GraphCase) -> None:
    """Columns are found by name; a shape of `-` and values of `NA` are unknown."""
    case.text(TextNode("Add", "Add", ("x:0",), output_fx=("add-aten.add.Tensor.OUTPUT.0",)))
    lines = (
        "Input/Output,Index,Data Size,Data Type,Format,Shape,Count,l2norm,Max Value,Avg Value\n"
        f"Input,0,8,DT_INT64,ND,-,NA,NA,NA,NA\nOutput,0,140,DT_FLOAT,ND,5x7,35,{np.linalg.norm(VALUES)},"
        f"{VALUES.max()},{VALUES.mean()}\n"
    )
    folder = case.target / "worldsize1_global_rank0/20240130064151/0/graph_1_0/1/0"
    case.add(folder / f"Add.Add.1.6.{TIME}.csv", lines.encode())
    case.node("add-aten.add.Tensor", (VALUES,), (VALUES,))
    table = case.table()
    row = table.of("Add.output.0")
    assert (row["Min diff"], row["MinRelativeErr"], row["Result"]) == ("N/A", "N/A", "PASS")
    assert abs(float(row["L2norm diff"])) < 1e-5
    assert (row["my_dtype"], row["my_shape"]) == ("torch.float32", "[5, 7]")
    assert table.of("Add.input.0")["Err_message"].startswith("no statistics of the target are known")
    assert table.path.name.startswith("msprobe_cmp_report_rank0_statistics_")


def reduced(case: GraphCase, target: AnyArray, golden: AnyArray) -> None:
    """Write both sides as reduced by the documented script."""
    case.one(target, golden)
    ge = next(case.target.rglob("Add.Add*"))
    np.savez(f"{ge}_min_max.npz", inputs=[], outputs=[[target.min(), target.max()]])
    ge.unlink()
    fx = next(case.fx.rglob("*.npy"))
    np.save(str(fx).removesuffix(".npy") + "_min_max", [golden.min(), golden.max()])
    fx.unlink()


def test_dumps_reduced_by_the_documented_script(case: GraphCase) -> None:
    reduced(case, VALUES + 1, VALUES)
    row = case.table().of("Add.output.0")
    assert float(row["Max diff"]) == pytest.approx(1, rel=1e-6)
    assert (row["Mean diff"], row["NormRelativeErr"], row["Result"]) == ("N/A", "N/A", "FAIL")
    assert row["my_data_path"].endswith("_min_max.npz,outputs,0")


def test_reduced_against_complete_dumps(case: GraphCase) -> None:
    reduced(case, VALUES, VALUES)
    name = fx_name("add", "aten.add.Tensor", "OUTPUT", (0,), STAMP + 2)
    case.add(case.fx / "worldsize1_global_rank0/graph_1/0" / name, saved(VALUES))
    row = case.table().of("Add.output.0")
    assert (row["Max diff"], row["Result"]) == ("0", "PASS")
    refused = case.table("--data_mode", "real", code=3).of("Add.output.0")
    assert refused["Err_message"] == "the target has statistics only, no data"
    refused = case.table("--data_mode", "md5", code=3).of("Add.output.0")
    assert "there is neither a checksum nor data" in refused["Err_message"]


def test_real_and_statistics_have_a_table_each(case: GraphCase) -> None:
    reduced(case, VALUES, VALUES)
    case.text(
        TextNode("Add", "Add", output_fx=("add-aten.add.Tensor.OUTPUT.0",)),
        TextNode("Mul", "Mul", output_fx=("mul-aten.mul.OUTPUT.0",)),
    )
    case.ge("Mul", (), (VALUES,), op_type="Mul")
    case.node("mul-aten.mul", (), (VALUES,))
    assert [table.results for table in case.tables()] == [{"Mul.output.0": "PASS"}, {"Add.output.0": "PASS"}]


def test_checksums(case: GraphCase) -> None:
    case.one(VALUES, VALUES)
    row = case.table("--data_mode", "md5").of("Add.output.0")
    crc = f"{zlib.crc32(VALUES.tobytes()):08x}"
    assert (row["NPU MD5"], row["BENCH MD5"], row["Result"], row["color"]) == (crc, crc, "PASS", "green")


@pytest.mark.parametrize(
    ("dtype", "layout"), [(dtypes.BFLOAT16, "ND"), (dtypes.FLOAT32, "FRACTAL_NZ"), (dtypes.BFLOAT16, "FRACTAL_NZ")]
)
def test_checksums_ignore_padding(case: GraphCase, dtype: dtypes.DType, layout: str) -> None:
    """FX stores bfloat16 as float32, and the layout of the device does not affect the checksum."""
    values = floats([[1, 2.5, -3], [0, 8, 0.5]])
    case.text(TextNode("Add", "Add", output_fx=("add-aten.add.Tensor.OUTPUT.0",)))
    case.ge("Add", (), (encode_tensor(values, dtype, layout),))
    case.node("add-aten.add.Tensor", (), (values,))
    assert case.table("--data_mode", "md5").of("Add.output.0")["Result"] == "PASS"
    assert case.table().of("Add.output.0")["MaxAbsErr"] == "0.0"


def test_different_types_are_noted_for_checksums(case: GraphCase) -> None:
    case.one(floats([1, 2]).astype(np.float16), floats([1, 2]))
    row = case.table("--data_mode", "md5").of("Add.output.0")
    assert row["Result"] == "FAIL"
    assert row["Err_message"] == "the element types differ: target float16, golden float32"


def test_saved_json_is_complete(case: GraphCase) -> None:
    case.one(floats([NAN, 2]), floats([1, 2]))
    case.table()
    (path,) = case.out.glob("result_*.json")
    found = load(str(path))
    (row,) = found.rows
    assert row.documented is not None
    assert math.isnan(row.documented.cosine or 0)
    assert row.metrics is not None
    assert row.metrics.target_nans == 1
    assert found.judgement.documented[0].result == "FAIL"
    (path,) = case.out.glob("msprobe_cmp_summary_*.json")
    summary = json.loads(path.read_text())
    assert (summary["fail"], summary["first_bad_token"], summary["first_bad_operator"]) == (1, 0, "Add")
