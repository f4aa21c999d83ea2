"""Dumps on the disks of several hosts: tasks run where the files are, and results are those of one machine.

The hosts are workers with the names of hosts. A host's files are in the current folder of its worker, so that
`/proc/self/cwd` leads elsewhere on each.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from cluster_processes import HOSTS, ClusterProcesses
from command_line import run
from made_dumps import Case, read_result
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample
from opdiff.workflows.compare.finished_chunks import FOLDER
from workflows.compare.many_operators import GOLDEN, write_many

if TYPE_CHECKING:
    from pathlib import Path


def on_host(processes: ClusterProcesses, host: str, folder: Path) -> str:
    """Move a folder to a host; return where it is there."""
    home = processes.folder_of(host) / folder.parent.name
    home.mkdir(exist_ok=True)
    shutil.rmtree(home / folder.name, ignore_errors=True)
    shutil.move(folder, home / folder.name)
    return f"{host}:/proc/self/cwd/{home.name}/{folder.name}"


def without_paths(folder: Path) -> list[list[str]]:
    """Return the cells of all tables of a folder, without those of paths."""
    lines = [line for path in sorted(folder.glob("*.csv")) for line in path.read_text().splitlines()]
    return [[cell for cell in line.split(",") if "/" not in cell] for line in lines]


@pytest.mark.parametrize("golden_host", ["npu-1", "npu-2"], ids=["one_host", "two_hosts"])
def test_offline_comparison(
    processes: ClusterProcesses, tmp_path: Path, capsys: pytest.CaptureFixture[str], golden_host: str
) -> None:
    made = write_sample(str(tmp_path / "sample"))
    sides = tmp_path / "sample" / "npu", tmp_path / "sample" / "golden"
    words = "--rules", made.rules, "--no-html"
    assert run(capsys, "compare", *sides, *words, "-o", tmp_path / "here").code == 0
    there = on_host(processes, "npu-1", sides[0]), on_host(processes, golden_host, sides[1])
    outcome = run(
        capsys, "compare", *there, "-m", "offline_data", *words, "-o", tmp_path / "there",
        "--cluster", processes.address,
    )  # fmt: skip
    assert outcome.code == 0, outcome
    assert without_paths(tmp_path / "there") == without_paths(tmp_path / "here")
    assert len(without_paths(tmp_path / "there")) > 100


def test_ranks_of_graph_mode(processes: ClusterProcesses, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One rank has both sides on one host, the other on two."""
    sample = write_graph_sample(str(tmp_path / "sample"), ranks=2)
    assert run(capsys, "compare", sample.target, sample.golden, "-m", "torchair", "-o", tmp_path / "here").code == 0
    table = tmp_path / "ranks.toml"
    lines = []
    for rank, hosts in enumerate((("npu-1", "npu-1"), ("npu-2", "npu-3"))):
        lines.append(f"[rank.{rank}]")
        for side, host in zip(("target", "golden"), hosts, strict=True):
            copy = tmp_path / f"{side}{rank}"
            shutil.copytree(getattr(sample, side), copy, ignore=shutil.ignore_patterns(f"*rank_{1 - rank}*"))
            lines.append(f'{side} = "{on_host(processes, host, copy)}"')
    table.write_text("\n".join(lines))
    words = "compare", "--ranks", table, "-o", tmp_path / "there", "--cluster", processes.address
    outcome = run(capsys, *words)
    assert outcome.code == 0, outcome
    assert without_paths(tmp_path / "there") == without_paths(tmp_path / "here")
    saved = "".join(path.read_text() for path in (tmp_path / "there").glob("*.csv"))
    assert {f"host://{host}/" in saved for host in HOSTS} == {True}


def test_rows_of_a_host_that_dies_have_the_reason(
    processes: ClusterProcesses, case: Case, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host has its own rows still."""
    monkeypatch.setattr("opdiff.run.workers._MAX_SECONDS_WITHOUT_WORKERS", 1.0)
    rules = write_many(case, 5)
    target, kept = on_host(processes, "npu-3", case.target), case.golden
    command = ["compare", target, kept, "-fr", rules, "-o", case.out, "--no-html", "--cluster", processes.address]
    monkeypatch.setattr("opdiff.workflows.compare.pipeline.align_and_measure", killing(processes, "npu-3"))
    outcome = run(capsys, *command)
    processes.add_workers("npu-3")
    assert outcome.code == 3, outcome
    (path,) = case.results()
    assert {row["CompareFailReason"] for row in read_result(path).rows} == {
        "no worker of the host npu-3 has been there for 1 s"
    }


def killing(processes: ClusterProcesses, host: str) -> object:
    from opdiff.workflows.compare.measuring import align_and_measure

    def kill_and_measure(*arguments: object) -> object:
        processes.kill(host)
        return align_and_measure(*arguments)  # type: ignore[arg-type]  # the arguments of the caller

    return kill_and_measure


def test_saved_units_are_measured_again_if_a_file_on_a_host_changed(
    processes: ClusterProcesses, case: Case, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opdiff.workflows.compare.finished_chunks.remove_chunks", lambda _folder: None)
    rules = write_many(case, 1)
    sides = on_host(processes, "npu-1", case.target), on_host(processes, "npu-2", case.golden)
    words = "compare", *sides, "-m", "offline_data", "-fr", rules, "-o", case.out, "--no-html"
    counts = []
    for value in (1, 1, 2):
        (path,) = (processes.folder_of("npu-2") / case.golden.parent.name / case.golden.name).iterdir()
        np.save(path, GOLDEN * value)
        os.utime(path, ns=(value, value))
        outcome = run(capsys, *words, "--resume", "--cluster", processes.address)
        assert outcome.code == 0, outcome
        counts.append(len(list((case.out / FOLDER).glob("*.rows"))))
    assert counts == [1, 1, 2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("npu-1:/x", "npu-1:/y"), "for HOST:PATH give --cluster"),
        (("npu-1:/x", "npu-1:/y", "--cluster", "local:1"), "give --mode offline_data or --mode torchair"),
        (("--ranks", "nothing.toml"), "no such file"),
        (("--ranks", "/dev/null", "--shards", "auto"), "--shards cannot be combined with --ranks"),
        (("/", "/", "--ranks", "nothing.toml"), "--ranks has the directories of both sides"),
    ],
)
def test_refused(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    outcome = run(capsys, "compare", *words)
    assert outcome.code in (2, 3)
    assert message in outcome.err


def test_host_without_worker(
    processes: ClusterProcesses, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opdiff.run.workers._MAX_SECONDS_WITHOUT_WORKERS", 0.5)
    words = "-m", "torchair", "-o", tmp_path, "--cluster", processes.address
    outcome = run(capsys, "compare", "elsewhere:/x", "elsewhere:/y", *words)
    assert outcome.code == 3
    assert "no worker of the host elsewhere has been there for 0.5 s" in outcome.err


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
