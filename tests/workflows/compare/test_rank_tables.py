"""Tables with the directories of ranks, instead of one directory with all of them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from command_line import run
from opdiff.sample.graph_mode import write_graph_sample

if TYPE_CHECKING:
    from pathlib import Path


def without_paths(folder: Path) -> list[list[str]]:
    """Return the cells of all tables of a folder, without those of paths."""
    lines = [line for path in sorted(folder.glob("*.csv")) for line in path.read_text().splitlines()]
    return [[cell for cell in line.split(",") if "/" not in cell] for line in lines]


@pytest.mark.parametrize("on_workers", [False, True], ids=["here", "on_workers"])
def test_ranks_of_graph_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str], *, on_workers: bool) -> None:
    """Each rank and side has a directory of its own."""
    sample = write_graph_sample(str(tmp_path / "sample"), ranks=2)
    assert run(capsys, "compare", sample.target, sample.golden, "-m", "torchair", "-o", tmp_path / "here").code == 0
    table = tmp_path / "ranks.toml"
    lines = []
    for rank in (0, 1):
        lines.append(f"[rank.{rank}]")
        for side in ("target", "golden"):
            copy = tmp_path / f"{side}{rank}"
            shutil.copytree(getattr(sample, side), copy, ignore=shutil.ignore_patterns(f"*rank_{1 - rank}*"))
            lines.append(f'{side} = "{copy}"')
    table.write_text("\n".join(lines))
    more = ("--cluster", "local:2") if on_workers else ()
    outcome = run(capsys, "compare", "--ranks", table, "-o", tmp_path / "there", *more)
    assert outcome.code == 0, outcome
    assert without_paths(tmp_path / "there") == without_paths(tmp_path / "here")
    saved = "".join(path.read_text() for path in (tmp_path / "there").glob("*.csv"))
    assert all(f"{tmp_path}/{side}{rank}/" in saved for side in ("target", "golden") for rank in (0, 1))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--ranks", "nothing.toml"), "no such file"),
        (("--ranks", "/dev/null", "--shards", "auto"), "--shards cannot be combined with --ranks"),
        (("/", "/", "--ranks", "nothing.toml"), "--ranks has the directories of both sides"),
    ],
)
def test_refused(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    outcome = run(capsys, "compare", *words)
    assert outcome.code in (2, 3)
    assert message in outcome.err


@pytest.mark.parametrize(
    ("text", "problem"),
    [("", "rank"), ("[rank.x]\ntarget='a'\ngolden='b'", "invalid literal"), ("[rank.0]\ntarget='a'", "golden")],
    ids=["empty", "no_number", "one_side"],
)
def test_unusable_table(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str) -> None:
    table = tmp_path / "ranks.toml"
    table.write_text(text)
    outcome = run(capsys, "compare", "--ranks", table, "-o", tmp_path)
    assert outcome.code == 3
    assert "not a table of ranks" in outcome.err
    assert problem in outcome.err
