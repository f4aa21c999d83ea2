"""`compare --model`: golden data made on the way, and found again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

import opdiff
from command_line import run
from dump_files import add, dump, tensor
from onnx_models import model, node, value, write
from opdiff.core.dtypes import FLOAT16

if TYPE_CHECKING:
    from pathlib import Path

X = np.random.default_rng(0).random((1, 3, 4, 5)).astype(np.float16).astype(np.float32)
OPERATORS = [{"name": "conv1", "type": "Conv2D"}, {"name": "aipp", "type": "Aipp"}]
RULES = json.dumps({"name": "m", "graph": [{"name": "g", "op": OPERATORS}]})


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """A folder with a model, its input, rules, and a dump of the NPU."""
    np.save(tmp_path / "x.npy", X)
    write(tmp_path / "m.onnx", model([node("Neg", "x", "y", "conv1")], [value("x", [1, 3, 4, 5])]))
    (tmp_path / "rules.json").write_text(RULES)
    add(tmp_path / "npu", "Conv2D.conv1.1.0.1650000000000000", dump(tensor(-X)))
    add(tmp_path / "npu", "Aipp.aipp.1.0.1650000000000000", dump(tensor(X, FLOAT16, "NC1HWC0")))
    return tmp_path


def compare(case: Path, capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    fixed = ("--model", case / "m.onnx", "-fr", case / "rules.json", "-o", case / "out")
    done = run(capsys, "compare", case / "npu", *fixed, *arguments)
    return done.code, done.out + done.err


def test_golden_data_is_made_once(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = compare(case, capsys, "--input", f"x={case}/x.npy")
    assert code == 0, text
    (folder,) = (case / "out").glob("golden-*")
    assert f"golden data made: 2 files in {folder}" in text
    times = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    code, text = compare(case, capsys, "--input", f"x={case}/x.npy")
    assert f"golden data found: 2 files in {folder}" in text
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == times


def test_other_inputs_make_other_golden_data(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compare(case, capsys, "--input", f"x={case}/x.npy")
    compare(case, capsys, "--random", 1)
    compare(case, capsys, "--random", 2)
    assert len(list((case / "out").glob("golden-*"))) == 3


def test_without_inputs_the_output_of_aipp_is_taken(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = compare(case, capsys)
    assert code == 0, text
    (folder,) = (case / "out").glob("golden-*")
    (array,) = folder.glob("x.0.*.npy")
    np.testing.assert_array_equal(np.load(array), X)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("npu", "npu", "--model", "m.onnx"), "--model takes the place of the golden directory; give the target"),
        (("npu", "npu", "--input", "x.npy"), "--input requires --model"),
        (("npu", "npu", "--random", "0"), "--random requires --model"),
    ],
)
def test_options_that_do_not_go_together(
    case: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(case)
    done = run(capsys, "compare", *arguments)
    assert (done.code, message in done.err) == (2, True), done.err


def test_from_python(case: Path) -> None:
    options = opdiff.GoldenOptions(reuse=True)
    results = [
        opdiff.golden(case / "m.onnx", case / "cache", inputs={"x": case / "x.npy"}, options=options) for _ in range(2)
    ]
    assert [result.is_reused for result in results] == [False, True]
    comparison = opdiff.compare(case / "npu", results[0].folder, rules=case / "rules.json")
    assert [str(row.key) for row in comparison.rows if row.metrics][:1] == ["conv1:output:0"]
