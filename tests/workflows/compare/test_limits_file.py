"""A file of limits is named wherever its effect is seen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from command_line import Capture, run
from made_dumps import Case, numbers, perturbed, rule
from opdiff.judge.limits import limits_text
from opdiff.report.saved_json import load
from opdiff.sample.graph_mode import write_graph_sample
from page_data import pack, raw_document, sentences

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.comparison import Comparison

A = numbers(4, 6)
WIDE = "[dtype.float32]\nnoise = 0.9\npeak = 9.0\n"


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def note(path: object) -> str:
    return f"The limits are not the defaults: {path} changes them."


def unwrapped(text: str) -> str:
    return " ".join(text.split())


def page_advice(comparison: Comparison) -> list[str]:
    document = raw_document(pack(comparison, lambda _block: None))
    return sentences(document["story"]["advice"], document)


def make(case: Case) -> tuple[object, ...]:
    case.npy("a", A)
    case.npu("a", perturbed(A))
    return case.target, case.golden, "-fr", case.rules(rule("a")), "-o", case.out, "--replay", "none"


def test_every_form_of_a_result_names_the_file(case: Case, in_folder: Path, capsys: Capture) -> None:
    path = in_folder / "opdiff.toml"
    path.write_text(WIDE)
    done = run(capsys, "compare", *make(case), "--json", "answer.json")
    assert note(path) in unwrapped(done.out)
    assert note(path) in json.loads((in_folder / "answer.json").read_text())["advice"]
    (saved,) = (case.out).glob("*.json")
    assert load(str(saved)).judgement.limits == str(path)
    assert note(path) in page_advice(load(str(saved)))
    assert note(path) in unwrapped(run(capsys, "compare", *make(case), "-q").out)
    assert "不是默认值" in run(capsys, "compare", *make(case), "--lang", "zh").out


def test_a_file_of_the_defaults_is_not_named(case: Case, in_folder: Path, capsys: Capture) -> None:
    (in_folder / "opdiff.toml").write_text(limits_text() + "[type.Softmax]\n[[name]]\npattern = '*'\n")
    assert "limits" not in run(capsys, "compare", *make(case)).out


def test_judging_again_names_the_limits_of_the_new_judgement(case: Case, in_folder: Path, capsys: Capture) -> None:
    run(capsys, "compare", *make(case))
    (saved,) = (case.out).glob("*.json")
    (in_folder / "wide.toml").write_text(WIDE)
    judged = run(capsys, "judge", saved, "--limits", "wide.toml", "-o", "again.json")
    assert note("wide.toml") in unwrapped(judged.out)
    assert note("wide.toml") in page_advice(load("again.json"))
    assert "limits" not in run(capsys, "judge", "again.json").out
    run(capsys, "report", saved, "--limits", "wide.toml", "--no-html", "--json", "answer.json")
    assert note("wide.toml") in json.loads((in_folder / "answer.json").read_text())["advice"]
    done = run(capsys, "diff", saved, "again.json")
    assert f"new: {note('wide.toml')}" in done.out
    assert "old: The limits" not in done.out
    assert run(capsys, "diff", saved, "again.json", "--json").json["limits"] == ["", "wide.toml"]


def test_the_page_of_an_operator_names_the_file(case: Case, in_folder: Path, capsys: Capture) -> None:
    (in_folder / "opdiff.toml").write_text(WIDE)
    words = ("op", "a", *make(case)[:-2])
    assert "limits" not in run(capsys, *words).out
    done = run(capsys, *words, "--html", "a.html", "--json", "a.json")
    assert note(in_folder / "opdiff.toml") in unwrapped(done.out)


def test_graph_mode_names_the_file(in_folder: Path, capsys: Capture) -> None:
    (in_folder / "opdiff.toml").write_text(WIDE)
    sample = write_graph_sample("graphs", ranks=1, tokens=1)
    done = run(capsys, "compare", sample.target, sample.golden, "-o", "out", "--no-html", "--replay", "none")
    assert note(in_folder / "opdiff.toml") in unwrapped(done.out)
    assert any(note(in_folder / "opdiff.toml") in path.read_text() for path in (in_folder / "out").glob("*summary*"))
