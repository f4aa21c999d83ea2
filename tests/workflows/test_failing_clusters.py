"""Commands on a cluster that are interrupted, or whose workers are killed or hang: nothing is lost, nothing goes on."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from cluster_processes import ClusterProcesses, running_cluster
from command_line import COMMAND
from device_runs import Fused
from made_dumps import tables
from opdiff.run.connection import open_cluster
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample
from opdiff.workflows.compare.measuring import align_and_measure
from residual_network import device_run
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from command_line import Command
    from opdiff.run.cluster import Cluster

NAMES = ("w0", "w1", "w2")
COMMANDS = ("compare", "graph", "convert", "inspect", "reduce", "replay")
_MAX_SECONDS = 30


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """A cluster whose workers take their time, and are missed after three seconds."""
    settings = {
        "DASK_DISTRIBUTED__WORKER__PRELOAD": '["slow_worker"]',
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "3s",
    }
    with running_cluster(tmp_path_factory.mktemp("cluster"), **settings) as found:
        yield found


@pytest.fixture
def processes(made: ClusterProcesses) -> ClusterProcesses:
    """The cluster with all its workers."""
    made.add_workers(*NAMES)
    with open_cluster(made.address) as cluster:
        cluster._client.wait_for_workers(len(NAMES), timeout=30)
    return made


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dumps of both modes, and a run with its model."""
    folder = tmp_path_factory.mktemp("inputs")
    write_sample(str(folder / "sample"))
    write_graph_sample(str(folder / "graph"), ranks=2)
    (folder / "device").mkdir()
    device_run(folder / "device", Fused("c2a1r2", "Conv2D", ("c2", "a1", "r2")))
    return folder


@pytest.fixture
def words(inputs: Path, tmp_path: Path) -> dict[str, list[object]]:
    """The commands, without `--cluster`."""
    sample, graph, device = (inputs / name for name in ("sample", "graph", "device"))
    ge = next(graph.glob("ge/*"))
    out = "-o", tmp_path / "out"
    reduced = tmp_path / "reduced"
    shutil.copytree(sample / "npu", reduced)
    (reduced / "dynamo_original_graph_1_rank_0_pid_1_ts_2.txt").touch()  # reduced as dumps of graph mode are
    for path in reduced.iterdir():
        os.utime(path, (1e9, 1e9))
    rules = "-fr", sample / "rules" / "network.json"
    return {
        "compare": ["compare", sample / "npu", sample / "golden", *rules, *out, "--no-html"],
        "graph": ["compare", ge, next(graph.glob("fx/*")), "-m", "torchair", *out, "--no-html"],
        "convert": ["convert", sample / "npu", "--format", "ND", "-out", tmp_path / "out"],
        "inspect": ["inspect", sample / "npu", "--stats"],
        "reduce": ["reduce", reduced],
        "replay": ["replay", device / "npu", "-fr", next(device.glob("*.json")), "--json"],
    }


def start(command: list[object], cluster: str) -> subprocess.Popen[bytes]:
    words = [*COMMAND, *map(str, command), "--cluster", cluster]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def busy_workers(cluster: Cluster) -> set[str]:
    """Return the names of the workers that run a task."""
    found = cluster._client.run(lambda dask_worker: (dask_worker.name, len(dask_worker.state.all_running_tasks)))
    return {name for name, count in found.values() if count}


def wait_until_busy(cluster: Cluster, process: subprocess.Popen[bytes]) -> str:
    """Wait until a worker runs a task of a command, and return its name."""
    deadline = time.monotonic() + _MAX_SECONDS
    while not (busy := busy_workers(cluster)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return min(busy)


def wait_until_clean(cluster: Cluster) -> None:
    """Wait until the scheduler has forgotten all tasks, and no worker runs one."""

    def is_clean() -> bool:
        tasks = cluster._client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        return not busy_workers(cluster) and not tasks

    wait_until(is_clean, _MAX_SECONDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_interrupt_leaves_the_cluster_clean(
    processes: ClusterProcesses, words: dict[str, list[object]], tmp_path: Path, name: str
) -> None:
    with open_cluster(processes.address) as cluster:
        process = start(words[name], processes.address)
        wait_until_busy(cluster, process)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=_MAX_SECONDS)
        before = written(tmp_path)
        assert process.returncode == 130, err
        assert b"Traceback" not in err
        wait_until_clean(cluster)
    # A worker finishes the file at hand, and no further one.
    assert len(written(tmp_path) - before) <= len(NAMES)


def written(folder: Path) -> set[str]:
    """Return the dump files that workers have converted or reduced."""
    return {re.sub(r"\.(in|out)put.*|_min_max.*", "", path.name) for path in folder.rglob("*.np[yz]")}


@pytest.mark.parametrize(
    ("name", "sent"),
    [("graph", signal.SIGKILL), ("replay", signal.SIGKILL), ("graph", signal.SIGSTOP)],
    ids=["graph_killed", "replay_killed", "graph_hangs"],
)
def test_worker_that_ends_or_hangs_costs_no_result(
    processes: ClusterProcesses, words: dict[str, list[object]], tmp_path: Path, name: str, sent: signal.Signals
) -> None:
    here = subprocess.run([*COMMAND, *map(str, words[name])], check=True, capture_output=True)
    tables_here = tables(tmp_path / "out")
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    with open_cluster(processes.address) as cluster:
        process = start(words[name], processes.address)
        worker = wait_until_busy(cluster, process)
        processes.workers[worker].send_signal(sent)
        out, err = process.communicate(timeout=2 * _MAX_SECONDS)
    processes.kill(worker)
    assert process.returncode == 0, err
    assert tables(tmp_path / "out") == tables_here
    assert name == "graph" or out == here.stdout


@pytest.mark.parametrize("name", ["compare", "graph"])
def test_lost_disk_costs_no_row(
    processes: ClusterProcesses,
    inputs: Path,
    words: dict[str, list[object]],
    tmp_path: Path,
    opdiff: Command,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """All workers have the dumps on disks of their own; that of one is lost when tensors were paired."""
    monkeypatch.chdir(inputs.parent)
    monkeypatch.setattr("opdiff.core.filesystem.realpath", lambda path: path)
    homes = {worker: processes.folder_of(worker) / inputs.name for worker in NAMES}
    for home in homes.values():
        shutil.copytree(inputs, home)
    command = [str(word).replace(str(inputs.parent), "/proc/self/cwd") for word in words[name]]
    assert opdiff(*command).code == 0
    here = tables(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")

    def lose_and_measure(*arguments: object) -> object:
        shutil.rmtree(homes["w1"], ignore_errors=True)
        return align_and_measure(*arguments)  # type: ignore[arg-type]  # the arguments of the caller

    monkeypatch.setattr("opdiff.workflows.compare.pipeline.align_and_measure", lose_and_measure)
    outcome = opdiff(*command, "--cluster", processes.address)
    for home in homes.values():
        shutil.rmtree(home, ignore_errors=True)
    assert outcome.code == 0, outcome
    assert tables(tmp_path / "out") == here
    assert not any(b"cannot open" in table for table in here.values())
