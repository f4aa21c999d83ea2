"""Whatever fails after measuring costs a note and exit code 70, never the measured numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from command_line import run
from opdiff.core.errors import InputError
from opdiff.report.saved_json import load
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample

if TYPE_CHECKING:
    from pathlib import Path

    from command_line import Capture, Outcome

JUDGING = "opdiff.workflows.compare.judging"
# What is broken, and the words of the note.
BOTH_MODES = {
    f"{JUDGING}.find_error_facts": "Examining the elements of suspicious tensors failed",
    f"{JUDGING}.environment_note": "Comparing the environments of both runs failed",
    f"{JUDGING}.with_input_advice": "Adding advice about the inputs failed",
    f"{JUDGING}.find_profiles": "Measuring errors along the axes failed",
    f"{JUDGING}.find_pictures": "Drawing pictures of tensors failed",
    "opdiff.judge.comparison_judgement._judge": "a defect of opdiff",
    # Replay gives advice and causes once more, so that nothing is missing.
    "opdiff.judge.comparison_judgement.advice_of": "",
    "opdiff.judge.causes.find_cause": "",
    "opdiff.judge.remedies.files_of": "Printing the result failed",
    "opdiff.report.answer_json.make_answer": "Writing the JSON answer failed",
    "opdiff.report.parquet_table.write_parquet": "Writing the report parquet failed",
    "opdiff.report.junit_xml.write_junit": "Writing the report junit failed",
}
STEPS = [
    *(
        pytest.param(mode, *step, id=f"{mode} {step[0]}")
        for mode in ("offline", "graph")
        for step in BOTH_MODES.items()
    ),
    ("offline", "opdiff.workflows.replay.proof.prove", "Computing suspects again failed"),
    ("offline", "opdiff.report.workbook.write_workbook", "Writing the report xlsx failed"),
    ("offline", "opdiff.report.model_explorer.write_model_explorer", "Writing the report model-explorer failed"),
    ("offline", "opdiff.report.curve.sparkline", "Printing the result failed"),
    ("graph", "opdiff.workflows.replay.graph_proof.prove_units", "Computing suspects again failed"),
    ("graph", "opdiff.report.workbook.write_table_workbook", "Writing the report xlsx failed"),
    ("graph", "opdiff.workflows.compare.outputs._write_summary", "Writing the summary failed"),
]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, ...]]:
    """Arguments of a comparison with a fault, in each mode."""
    root = tmp_path_factory.mktemp("sample")
    offline = write_sample(str(root / "offline"))
    graph = write_graph_sample(str(root / "graph"), ranks=1)
    return {
        "offline": (offline.target, offline.golden, "-fr", offline.rules, "--model-explorer"),
        "graph": (graph.target, graph.golden, "-m", "torchair"),
    }


def compare(capsys: Capture, out: Path, *arguments: str) -> Outcome:
    forms = ("--xlsx", "--parquet", "--junit", "--json", str(out / "answer.json"), "--remedies", str(out / "remedies"))
    out.mkdir()
    return run(capsys, "compare", *arguments, *forms, "-o", out)


def break_function(monkeypatch: pytest.MonkeyPatch, name: str, error: Exception) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(name, fail)


def kinds(out: Path) -> set[str]:
    return {"".join(path.suffixes) for path in out.iterdir() if path.is_file()}


@pytest.mark.parametrize(("mode", "step", "told"), STEPS)
def test_a_failing_step_costs_a_note(
    sides: dict[str, tuple[str, ...]], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch,
    mode: str, step: str, told: str,
) -> None:  # fmt: skip
    break_function(monkeypatch, step, ZeroDivisionError("broken on purpose"))
    outcome = compare(capsys, tmp_path / "out", *sides[mode])
    assert outcome.code == 70, outcome
    assert told in " ".join(outcome.out.split())
    assert "ZeroDivisionError: broken on purpose" in outcome.err
    found = kinds(tmp_path / "out")
    assert {".csv", ".html", ".json"} <= found
    (saved,) = (tmp_path / "out").glob("result_*.json")
    assert load(str(saved)).rows
    lost = {"parquet": ".parquet", "junit": ".junit.xml", "xlsx": ".xlsx"}
    assert found >= {suffix for name, suffix in lost.items() if f"report {name}" not in told}


def test_a_failing_page_leaves_everything_else(
    sides: dict[str, tuple[str, ...]], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_function(monkeypatch, "opdiff.report.html_page.write_html", ZeroDivisionError())
    outcome = compare(capsys, tmp_path / "out", *sides["offline"])
    assert outcome.code == 70
    assert kinds(tmp_path / "out") == {".csv", ".json", ".xlsx", ".parquet", ".junit.xml"}
    (saved,) = (tmp_path / "out").glob("result_*.json")
    assert [str(note).partition(":")[0] for note in load(str(saved)).notes] == ["Writing the report html failed"]


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (OSError(28, "No space left on device"), 3, "No space left"),
        (InputError("x.onnx", "damaged"), 0, "x.onnx: damaged"),
    ],
)
def test_expected_errors_are_no_defects(
    sides: dict[str, tuple[str, ...]], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch,
    error: Exception, code: int, told: str,
) -> None:  # fmt: skip
    break_function(monkeypatch, "opdiff.report.parquet_table.write_parquet", error)
    outcome = compare(capsys, tmp_path / "out", *sides["offline"])
    assert outcome.code == code
    assert told in outcome.out
    assert "Traceback" not in outcome.err
    assert {".csv", ".html", ".json", ".xlsx"} <= kinds(tmp_path / "out")
