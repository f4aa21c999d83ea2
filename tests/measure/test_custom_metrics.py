"""Custom metrics: arguments, results, and rejected files."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.core import dtypes
from opdiff.core.errors import ElementError, PluginError
from opdiff.measure.custom import METRICS, MetricArgs, ScriptMetric, load_metrics, run_metric

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray

ARGS = MetricArgs("a/target", "b/golden.npy", "tensor", {"limit": "3"})
SUM = "def compare(my, golden, args):\n    return str(float(my.sum() - golden.sum())), ''\n"
TARGET = np.array([[0x3F80, 0x4000]], "<u2"), dtypes.BFLOAT16
GOLDEN = np.array([[1], [4]], "<i8"), dtypes.INT64


def write(folder: Path, scripts: dict[str, str]) -> str:
    (folder / "algorithm").mkdir()
    for name, text in scripts.items():
        (folder / "algorithm" / name).write_text(text)
    return str(folder)


def run(folder: Path, body: str) -> tuple[str, str, str]:
    (metric,) = load_metrics(write(folder, {"alg_Mine.py": f"def compare(my, golden, args):\n    {body}\n"}))
    return run_metric(metric, TARGET, GOLDEN, ARGS)


def test_script_is_a_metric(tmp_path: Path) -> None:
    metrics = load_metrics(write(tmp_path, {"alg_B_2.py": SUM, "alg_A.py": SUM}))
    assert [metric.name for metric in metrics] == ["A", "B_2"]
    assert metrics[0] == ScriptMetric("A", str(tmp_path / "algorithm" / "alg_A.py"))
    assert run_metric(pickle.loads(pickle.dumps(metrics[0])), TARGET, GOLDEN, ARGS) == ("A", "-2.0", "")  # noqa: S301
    assert sorted(os.listdir(tmp_path / "algorithm")) == ["alg_A.py", "alg_B_2.py"]


def test_scripts_get_flat_copies(tmp_path: Path) -> None:
    body = "my[:], golden[:] = 7, 7; return f'{my.dtype} {my.shape} {golden.dtype} {golden.shape}', ''"
    before = GOLDEN[0].copy()
    assert run(tmp_path, body) == ("Mine", "float32 (2,) int64 (2,)", "")
    np.testing.assert_array_equal(GOLDEN[0], before)


@pytest.mark.parametrize("dtype", [dtypes.INT64, dtypes.BOOL, dtypes.FLOAT8_E5M2, dtypes.FLOAT32], ids=str)
def test_read_only_arrays_are_copied(dtype: dtypes.DType) -> None:
    array = np.zeros(3, dtype.storage)
    array.flags.writeable = False
    seen: list[AnyArray] = []

    class Watching:
        name = "Watching"

        def compare(self, my: AnyArray, golden: AnyArray, args: MetricArgs) -> tuple[str, str]:  # noqa: ARG002
            seen.extend((my, golden))
            return "", ""

    run_metric(Watching(), (array, dtype), (array[::-1], dtype), ARGS)
    assert all(values.flags.writeable and not np.may_share_memory(values, array) for values in seen)


def test_scripts_get_file_names_and_shape_type(tmp_path: Path) -> None:
    body = (
        "return args.my_output_dump_file + args.limit, repr(args.get() == args.get_dict()) + args.get()['shape_type']"
    )
    assert run(tmp_path, body) == ("Mine", "a/target3", "Truetensor")


def test_arguments_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(ARGS)) == ARGS  # noqa: S301 (made here)
    assert MetricArgs("a", "b", "scalar", {"shape_type": "x"}).get()["shape_type"] == "scalar"
    with pytest.raises(AttributeError, match="nothing"):
        _ = ARGS.nothing


FAILURES = [
    ("raise ValueError('no')", r"Mine failed: ValueError('no')"),
    ("raise SystemExit", "Mine failed: SystemExit()"),
    ("return 3", "Mine returned 3, not two texts: a value and a message"),
    ("return 1.0, ''", "Mine returned (1.0, ''), not two texts: a value and a message"),
    ("return 'a', 'b', 'c'", "Mine returned ('a', 'b', 'c'), not two texts: a value and a message"),
    ("pass", "Mine returned None, not two texts: a value and a message"),
]


@pytest.mark.parametrize(("body", "message"), FAILURES, ids=[body for body, _ in FAILURES])
def test_failing_metric_has_a_message(tmp_path: Path, body: str, message: str) -> None:
    assert run(tmp_path, body) == ("Mine", "NaN", message)


BAD_SCRIPTS = [
    ("", "has no function compare"),
    ("compare = 3", "has no function compare"),
    ("def compare(my, golden): ...", "function compare must take 3 arguments: my, golden, args"),
]


@pytest.mark.parametrize(("text", "problem"), BAD_SCRIPTS, ids=[repr(text) for text, _ in BAD_SCRIPTS])
def test_invalid_scripts_are_rejected_on_first_use(tmp_path: Path, text: str, problem: str) -> None:
    (metric,) = load_metrics(write(tmp_path, {"alg_Mine.py": text}))
    with pytest.raises(PluginError, match=f"metric '.*/alg_Mine.py': {problem}"):
        run_metric(metric, TARGET, GOLDEN, ARGS)


@pytest.mark.parametrize("name", ["Mine.py", "alg_.py", "alg_A-B.py", "alg_A.pyc", "README.md", "alg_Ä.py"])
def test_invalid_file_names_are_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(PluginError) as caught:
        load_metrics(write(tmp_path, {name: SUM}))
    assert str(caught.value) == f"metric '{tmp_path}/algorithm/{name}': is not named alg_{{NAME}}.py"


@pytest.mark.parametrize("name", ["CosineSimilarity", "cosinesimilarity", "ALL"])
def test_names_of_documented_metrics_are_reserved(tmp_path: Path, name: str) -> None:
    with pytest.raises(PluginError, match=f"alg_{name}.py': the name {name} is taken"):
        load_metrics(write(tmp_path, {f"alg_{name}.py": SUM}))


def test_scripts_are_checked_like_conversions(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"metric '.*/algorithm': cannot be listed: No such file or directory"):
        load_metrics(str(tmp_path))
    with pytest.raises(PluginError, match=r"alg_A\.py': has 1000001 bytes, at most 1000000 are allowed"):
        load_metrics(write(tmp_path, {"alg_A.py": "#" * 1_000_001}))


def test_opaque_types_have_no_custom_metrics(tmp_path: Path) -> None:
    (metric,) = load_metrics(write(tmp_path, {"alg_A.py": SUM}))
    with pytest.raises(ElementError, match="strings are not numbers"):
        run_metric(metric, (np.zeros(1, "u1"), dtypes.STRING), GOLDEN, ARGS)


def test_packages_can_add_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name = "from_elsewhere"

        def load(self) -> ScriptMetric:
            return ScriptMetric("Elsewhere", "")

    groups: list[str] = []

    def points(*, group: str) -> list[Point]:
        groups.append(group)
        return [Point()]

    monkeypatch.setattr("importlib.metadata.entry_points", points)
    registry = type(METRICS)("metric", ())
    assert registry.names() == ("Elsewhere",)
    assert groups == ["opdiff.metrics"]
