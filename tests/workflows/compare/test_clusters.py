"""Comparisons on a cluster: the same bytes as on one machine, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import opdiff
from cluster_processes import ClusterProcesses, running_cluster
from command_line import COMMAND, run
from made_dumps import Case, numbers, read_result, tables
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample
from opdiff.workflows.compare.finished_chunks import FOLDER
from waiting import wait_until
from workflows.compare.many_operators import write_slow

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("w0", "w1", "w2")


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), *NAMES) as found:
        yield found


def compare_twice(capsys: pytest.CaptureFixture[str], root: Path, cluster: str, *words: object) -> dict[str, bytes]:
    """Compare on this machine and on a cluster; check that tables are equal, and return them."""
    for name, more in (("here", ()), ("there", ("--cluster", cluster))):
        outcome = run(capsys, "compare", *words, "-o", root / name, *more)
        assert outcome.code == 0, outcome
    assert tables(root / "there") == tables(root / "here")
    return tables(root / "there")


def test_offline_comparison(processes: ClusterProcesses, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = write_sample(str(tmp_path / "sample"))
    sample = tmp_path / "sample"
    # Rows without numbers must not differ either.
    broken = min((sample / "npu").glob("Conv2D.*"))
    broken.write_bytes(broken.read_bytes()[:-8])
    (found,) = compare_twice(
        capsys, tmp_path, processes.address, sample / "npu", sample / "golden", "--rules", made.rules
    ).values()
    assert len(found.splitlines()) > 100


@pytest.mark.parametrize("mode", ["auto", "statistics", "md5"])
def test_graph_mode(processes: ClusterProcesses, tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str) -> None:
    sample = write_graph_sample(str(tmp_path), ranks=2)
    words = sample.target, sample.golden, "-m", "torchair", "--data_mode", mode
    assert len(compare_twice(capsys, tmp_path, processes.address, *words)) == 2


def test_python(processes: ClusterProcesses, tmp_path: Path) -> None:
    made = write_sample(str(tmp_path))
    sides = tmp_path / "npu", tmp_path / "golden"
    here = opdiff.compare(*sides, rules=made.rules)
    there = opdiff.compare(*sides, rules=made.rules, options=opdiff.CompareOptions(cluster=processes.address))
    # Not measured numbers are `nan`, which equals nothing.
    assert repr(there.rows) == repr(here.rows)
    assert repr(there.judgement) == repr(here.judgement)


@pytest.fixture
def home(processes: ClusterProcesses, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of one worker and of the client: only these find files under `/proc/self/cwd`."""
    found = processes.folder_of("w1")
    monkeypatch.chdir(found)
    monkeypatch.setattr("opdiff.core.filesystem.realpath", lambda path: path)
    return found


def test_files_that_one_host_can_read(
    processes: ClusterProcesses, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sample(str(home / "sample"))
    sample = "/proc/self/cwd/sample"
    words = f"{sample}/npu", f"{sample}/golden", "--rules", f"{sample}/rules/network.json"
    (found,) = compare_twice(capsys, tmp_path, processes.address, *words).values()
    assert b"cannot open" not in found


def test_graph_dumps_that_one_host_can_read(
    processes: ClusterProcesses, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = write_graph_sample(str(home / "graph"), ranks=2)
    sides = (f"/proc/self/cwd/{Path(side).relative_to(home)}" for side in (made.target, made.golden))
    found = compare_twice(capsys, tmp_path, processes.address, *sides, "-m", "torchair")
    assert len(found) == 2
    assert not any(b"cannot open" in table for table in found.values())


def command_of(case: Case, *options: object) -> list[str]:
    return [*COMMAND, *map(str, ("compare", case.target, case.golden, *options, "-o", case.out))]


def test_killed_worker_costs_no_row(processes: ClusterProcesses, case: Case) -> None:
    mark, options = write_slow(case, 150, seconds=0.02)
    running = subprocess.Popen(command_of(case, *options, "--cluster", processes.address), stderr=subprocess.PIPE)
    wait_until(mark.exists)
    processes.kill("w1")
    _, err = running.communicate(timeout=60)
    processes.add_workers("w1")
    assert running.returncode == 0, err.decode()
    (path,) = case.results()
    rows = read_result(path).rows
    assert [row["NPUDump"] for row in rows] == [f"op{number}" for number in range(150)]
    assert {row["Own"] for row in rows} == {"1"}


def test_interrupt_of_local_workers(case: Case) -> None:
    mark, options = write_slow(case, 400, seconds=0.02)
    command = command_of(case, *options, "--cluster", "local:2")
    running = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    wait_until(mark.exists)
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 130, err.decode()
    assert err.decode() == "opdiff: interrupted\n"
    assert case.leftovers() == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cluster-config", "x.yaml"), "--cluster-config requires --cluster"),
        (("--cluster", "local:1", "-j", "2"), "--jobs cannot be combined with --cluster"),
        (("--cluster", "local:1", "--memory", "1G"), "--memory cannot be combined with --cluster"),
        (("--cluster", "local:1", "-op", "a"), "--op_name cannot be combined with --cluster"),
    ],
)
def test_contradictory_options(case: Case, words: tuple[str, ...], message: str) -> None:
    case.one(numbers(2), numbers(2))
    assert message in case.refused(*words, code=2)


def test_killed_client_is_continued(processes: ClusterProcesses, case: Case) -> None:
    for number in range(2500):
        case.npu(f"op{number}", numbers(2))
    case.golden = case.target
    words = command_of(case, "--no-html")
    subprocess.run(words, check=True, capture_output=True)
    (plain,) = case.results()
    words += ["--resume", "--cluster", processes.address]
    client = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    wait_until((case.out / FOLDER).exists)
    client.kill()
    client.wait()
    subprocess.run(words, check=True, capture_output=True)
    (resumed,) = set(case.results()) - {plain}
    assert resumed.read_bytes() == plain.read_bytes()
