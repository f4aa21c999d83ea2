"""Runs that did not end: their files are recognised as incomplete, their drafts are removed, their tables are kept."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from command_line import run
from made_dumps import Case, numbers
from opdiff.core.atomic_file import remove_old_drafts
from opdiff.report.saved_json import files_of

if TYPE_CHECKING:
    from pathlib import Path

# Larger than the number of any process.
DEAD = 1 << 30


def test_the_saved_form_lists_the_files_of_its_run(case: Case) -> None:
    case.compared("-fr", case.one(numbers(2, 3), numbers(2, 3)), "--junit")
    (saved,) = case.out.glob("result*.json")
    others = {path.name for path in case.out.iterdir()} - {saved.name}
    assert set(files_of(str(saved)) or ()) == others
    assert set(json.loads(saved.read_bytes())["files"]) == others


@pytest.mark.parametrize("name", ["result_20240115103052.csv", "msprobe_cmp_report_rank0_20240115103052_1.csv"])
@pytest.mark.parametrize("command", ["report", "judge", "diff"])
def test_a_folder_with_a_table_of_no_complete_run_is_refused(case: Case, command: str, name: str) -> None:
    case.compared("-fr", case.one(numbers(2, 3), numbers(2, 3)))
    (saved,) = case.out.glob("result*.json")
    count = 2 if command == "diff" else 1
    assert run(case.capsys, command, *[case.out] * count).code == 0
    (case.out / name).write_text("Index\n")
    outcome = run(case.capsys, command, *[case.out] * count)
    assert outcome.code == 3
    assert f"{name} is of a run that did not end" in outcome.err
    assert run(case.capsys, command, *[saved] * count).code == 0


def test_the_table_exists_even_if_a_report_fails(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("opdiff.workflows.compare.outputs.save", fail)
    result = case.compared("-fr", case.one(numbers(2, 3), numbers(2, 3)), code=70)
    assert result.of("a")["Equal"] == "YES"
    assert not list(case.out.glob("*.json"))


@pytest.mark.parametrize("name", [f".{DEAD}.1.draft", f".{DEAD}.1.0a1b2c3d.part", f".{DEAD}.part"])
def test_old_drafts_of_dead_processes_are_removed(tmp_path: Path, name: str) -> None:
    own = name.replace(str(DEAD), str(os.getpid()))
    for file in (name, own, "result.csv"):
        (tmp_path / file).touch()
    remove_old_drafts(str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 3
    for path in tmp_path.iterdir():
        os.utime(path, (time.time() - 4000,) * 2)
    remove_old_drafts(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {own, "result.csv"}


def test_draft_folders_are_removed_when_their_files_are_old(tmp_path: Path) -> None:
    for folder in (tmp_path / f".{DEAD}.1.00000000.part", tmp_path / f".{DEAD}.2.00000000.part"):
        folder.mkdir()
        (folder / "table-0").touch()
        os.utime(folder, (time.time() - 4000,) * 2)
    os.utime(tmp_path / f".{DEAD}.1.00000000.part" / "table-0", (time.time() - 4000,) * 2)
    remove_old_drafts(str(tmp_path))
    # Something writes to the other one, on another machine.
    assert [path.name for path in tmp_path.iterdir()] == [f".{DEAD}.2.00000000.part"]


def test_graph_mode_lists_its_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "demo", tmp_path / "demo", "--torchair", "-q").code == 0
    (saved,) = (tmp_path / "demo" / "result").glob("result*.json")
    tables = {path.name for path in saved.parent.glob("*.csv")}
    assert tables
    assert tables <= set(files_of(str(saved)) or ())
    assert run(capsys, "report", saved.parent).code == 0
