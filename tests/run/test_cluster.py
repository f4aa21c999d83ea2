"""Execution on a cluster: every job has a result, even if workers die, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import pytest

from cluster_processes import ClusterProcesses, running_cluster
from opdiff.run import cluster as cluster_module
from opdiff.run.cluster import BatchWork
from opdiff.run.connection import open_cluster
from opdiff.run.worker_task import Each
from waiting import wait_until
from worker_functions import (
    DEADLY,
    Multiply,
    double,
    double_or_die,
    double_or_fail,
    double_slowly,
    process_id,
    read_on_host,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opdiff.run.cluster import Cluster


NAMES = ("w0", "w1", "w2")


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    # A task whose worker dies fails at once, so that few workers must be started again.
    settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    with running_cluster(tmp_path_factory.mktemp("cluster"), **settings) as found:
        yield found


@pytest.fixture
def cluster(processes: ClusterProcesses) -> ClusterProcesses:
    """The cluster with all its workers."""
    processes.add_workers(*NAMES)
    with open_cluster(processes.address) as found:
        found._client.wait_for_workers(len(NAMES), timeout=30)
    return processes


@pytest.fixture
def connection(cluster: ClusterProcesses) -> Iterator[Cluster]:
    with open_cluster(cluster.address) as found:
        yield found


def work(function: Callable[[Any], Any], nbytes: int = 1 << 20, **options: Any) -> BatchWork[Any, Any]:
    """Return the work of jobs of this size; the code of the reason is the result of a job that fails."""
    return BatchWork(Each(function), lambda _job, reason: reason.code, lambda _job: nbytes, **options)


@pytest.mark.parametrize("count", [0, 1, 17, 5000], ids=lambda count: f"{count}_jobs")
def test_every_job_has_its_result(connection: Cluster, count: int) -> None:
    results = dict(connection.run(work(double), range(count)))
    assert results == {job: 2 * job for job in range(count)}


def test_all_workers_get_jobs_and_are_counted(cluster: ClusterProcesses) -> None:
    counts: list[int] = []
    with open_cluster(cluster.address, on_workers=counts.append) as connection:
        found = {result for _, result in connection.run(work(process_id), range(300))}
    assert found == {process.pid for process in cluster.workers.values()}
    assert set(counts) == {3}


def test_exception_costs_only_its_job(connection: Cluster) -> None:
    results = dict(connection.run(work(double_or_fail), range(600)))
    assert results == {job: "run.task_failed" if job in DEADLY else 2 * job for job in range(600)}


def test_job_that_kills_its_worker_costs_only_itself(cluster: ClusterProcesses, connection: Cluster) -> None:
    """It kills a worker with its batch, one with its own task, and one more when nothing else is running."""
    cluster.add_workers("w3")
    connection._client.wait_for_workers(4, timeout=30)
    results = dict(connection.run(work(double_or_die), range(10)))
    assert results == {job: "run.worker_died" if job in DEADLY else 2 * job for job in range(10)}
    # A connection is lost before its process has ended.
    wait_until(lambda: sum(process.poll() is None for process in cluster.workers.values()) == 1, 5)
    cluster.kill("w3")
    del cluster.workers["w3"]


def test_killed_worker_costs_no_result(cluster: ClusterProcesses, connection: Cluster) -> None:
    Timer(0.5, cluster.kill, ["w1"]).start()
    results = dict(connection.run(work(double_slowly), range(200)))
    assert cluster.workers["w1"].poll() is not None
    assert results == {job: 2 * job for job in range(200)}


def test_results_that_die_with_their_worker_are_computed_again(cluster: ClusterProcesses, connection: Cluster) -> None:
    """They are fetched when they are asked for."""
    results = connection.run(work(double, 1 << 24), range(60))
    first = next(results)
    wait_until(lambda: set(task_states(connection)) == {"memory"}, 10)
    cluster.kill("w1")
    started = time.monotonic()
    assert dict([first, *results]) == {job: 2 * job for job in range(60)}
    assert time.monotonic() - started < 20


def test_function_that_is_sent_once_survives_a_worker(cluster: ClusterProcesses, connection: Cluster) -> None:
    sent = Multiply(os.urandom(12 << 20))
    Timer(0.5, cluster.kill, ["w1"]).start()
    results = dict(connection.run(work(sent, sends_once=True), range(200)))
    assert_no_tasks(connection)
    assert cluster.workers["w1"].poll() is not None
    assert results == {job: len(sent.data) * job for job in range(200)}


def test_a_cluster_without_workers_gives_every_job_the_reason(
    cluster: ClusterProcesses, connection: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "_MAX_SECONDS_WITHOUT_WORKERS", 2.0)
    Timer(0.3, cluster.kill, NAMES).start()
    results = dict(connection.run(work(double_slowly), range(1000)))
    assert len(results) == 1000
    assert set(results.values()) - {2 * job for job in range(1000)} == {"run.no_workers"}


def test_stopped_worker_is_replaced_by_others(tmp_path: Path) -> None:
    """The scheduler notices that a worker is silent, and gives its tasks to others."""
    settings = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "1s"}
    with running_cluster(tmp_path, *NAMES, **settings) as processes, open_cluster(processes.address) as connection:
        connection._client.wait_for_workers(len(NAMES), timeout=30)
        Timer(0.5, processes.workers["w1"].send_signal, [signal.SIGSTOP]).start()
        results = dict(connection.run(work(double_slowly), range(200)))
    assert results == {job: 2 * job for job in range(200)}


def test_file_that_one_host_can_read_is_read_there(connection: Cluster) -> None:
    jobs = [f"{name} {number}" for name in NAMES for number in range(40)]
    results = dict(connection.run(work(read_on_host, is_unread=lambda found: not found), [*jobs, "nowhere 0"]))
    assert results == {job: job.split()[0] for job in jobs} | {"nowhere 0": ""}


def test_map_keeps_the_order_and_raises_exceptions(connection: Cluster) -> None:
    assert list(connection.map(double_slowly, range(50))) == [2 * number for number in range(50)]
    with pytest.raises(ValueError, match="cannot double 7"):
        list(connection.map(double_or_fail, range(50)))
    assert_no_tasks(connection)


INTERRUPTED = """
import signal, sys
from threading import Timer
from opdiff.run.cluster import BatchWork
from opdiff.run.connection import open_cluster
from opdiff.run.worker_task import Each
from worker_functions import double_slowly
work = BatchWork(Each(double_slowly), lambda job, reason: 0, lambda job: 1 << 20)
with open_cluster(sys.argv[1]) as cluster:
    Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
    try:
        list(cluster.run(work, range(1000)))
    except KeyboardInterrupt:
        print("interrupted")
"""


def count_tasks(cluster: Cluster) -> int:
    return len(task_states(cluster))


def task_states(cluster: Cluster) -> list[str]:
    """Return the state of each task that the scheduler knows."""
    found: list[str] = cluster._client.run_on_scheduler(
        lambda dask_scheduler: [task.state for task in dask_scheduler.tasks.values()]
    )
    return found


def assert_no_tasks(cluster: Cluster) -> None:
    wait_until(lambda: not count_tasks(cluster), 5)


def test_interrupt_cancels_what_was_submitted(cluster: ClusterProcesses) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", INTERRUPTED, cluster.address]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=30)
    assert outcome.stdout == "interrupted\n"
    with open_cluster(cluster.address) as connection:
        assert_no_tasks(connection)


def test_closing_the_iterator_cancels_what_was_submitted(connection: Cluster) -> None:
    results = connection.run(work(double_slowly), range(400))
    next(results)
    assert count_tasks(connection) > 0
    del results
    assert_no_tasks(connection)


def test_lost_scheduler_gives_every_job_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "_MAX_SECONDS_WITHOUT_WORKERS", 2.0)
    config = tmp_path / "dask.yaml"
    config.write_text("distributed: {comm: {timeouts: {connect: 500ms}}}")
    with running_cluster(tmp_path, "w0") as processes, open_cluster(processes.address, str(config)) as connection:
        Timer(0.3, processes.scheduler.kill).start()
        results = dict(connection.run(work(double_slowly), range(500)))
    assert len(results) == 500
    assert set(results.values()) - {2 * job for job in range(500)} <= {"run.no_workers", "run.scheduler_lost"}
