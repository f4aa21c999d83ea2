"""Pipes and devices in place of input files: refused at once, whichever option names them."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from command_line import run
from made_dumps import Case, numbers, rule
from opdiff.core.errors import DumpError
from opdiff.core.source import FileRange
from opdiff.read.rules.graph_text import read_graph_text
from opdiff.workflows.compare.measuring import align_and_measure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPTIONS = ("-fr", "-cfr", "-qfr", "--pairs", "--limits")
COMMANDS = (("judge",), ("report",), ("diff", "SAVED"))


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """End a test that hangs."""
    signal.alarm(20)
    yield
    signal.alarm(0)


@pytest.fixture(params=["pipe", "device"])
def special(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "device":
        return "/dev/zero"
    path = str(tmp_path / "pipe.json")
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_names_a_special_file(case: Case, special: str, option: str) -> None:
    rules = case.one(numbers(2, 3), numbers(2, 3))
    first = () if option == "-fr" else ("-fr", rules)
    said = case.refused(*first, option, special)
    assert f"{special}: cannot be read: not a regular file" in said


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_saved_comparison_that_is_a_special_file(case: Case, special: str, command: tuple[str, ...]) -> None:
    case.compared("-fr", case.one(numbers(2, 3), numbers(2, 3)))
    (saved,) = case.out.glob("*.json")
    arguments = [str(saved) if word == "SAVED" else word for word in command]
    outcome = run(case.capsys, *arguments, special)
    assert outcome.code == 3
    assert "not a regular file" in outcome.err


def test_a_dump_that_became_a_pipe(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is replaced after it was described costs its row."""
    # More than what is kept when headers are read.
    path = case.npu("a", numbers(20, 30))
    case.npy("a", numbers(20, 30))
    rules = case.rules(rule("a"))

    def replaced(*arguments: Any) -> object:
        path.unlink()
        os.mkfifo(path)
        return align_and_measure(*arguments)

    monkeypatch.setattr("opdiff.workflows.compare.pipeline.align_and_measure", replaced)
    row = case.compared("-fr", rules, code=3).of("a")
    assert f"{path}: cannot be read: Invalid argument" in row["CompareFailReason"]


def test_a_source_that_became_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DumpError, match="cannot be opened: not a regular file"):
        FileRange(str(tmp_path / "pipe"), 0, 10).raw()


def test_a_listing_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    text = 'graph {\n op {\n name: "a"\n type: "Add"\n }\n}\n'
    (tmp_path / "in").mkdir()
    (tmp_path / "outside.py").write_text('# File "secret.py", line 1, in f\nx = ge.Add(node_name="a")\n')
    (tmp_path / "in" / "dynamo_graph.txt").write_text(text)
    (tmp_path / "in" / "dynamo_graph.py").symlink_to(tmp_path / "outside.py")
    assert "secret" not in repr(read_graph_text(str(tmp_path / "in" / "dynamo_graph.txt")))
