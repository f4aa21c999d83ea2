"""Connections to clusters: addresses, versions, certificates, and processes of this machine."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import subprocess
import sys
from multiprocessing.synchronize import SemLock
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from cluster_processes import ClusterProcesses, running_cluster
from opdiff.core.errors import InputError, UsageError
from opdiff.run import connection
from opdiff.run.cluster import BatchWork
from opdiff.run.connection import open_cluster
from opdiff.run.worker_task import Each, software_versions
from worker_functions import double, process_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.run.cluster import Cluster


def doubled(cluster: Cluster) -> list[int]:
    work: BatchWork[int, int] = BatchWork(Each(double), lambda _job, _reason: -1, lambda _job: 1)
    return [result for _, result in cluster.run(work, range(3))]


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), "w0") as found:
        yield found


def test_address_and_scheduler_file(processes: ClusterProcesses) -> None:
    for address in (processes.address, str(processes.scheduler_file)):
        with open_cluster(address) as cluster:
            assert doubled(cluster) == [0, 2, 4]


OTHER_PYTHON = """
import platform, sys
from collections import namedtuple
version = namedtuple("version", "major minor micro releaselevel serial")

def dask_setup(worker):
    sys.version_info = version(3, 11, 99, "final", 0)
    platform.python_version = lambda: "3.11.99"
"""


def other_software(name: str, folder: Path) -> dict[str, str]:
    """Return settings of a worker that has another version of a package, or of Python."""
    path = f"{folder}:{Path(__file__).parents[1]}"
    if name == "python":
        (folder / "other_python.py").write_text(OTHER_PYTHON)
        return {"PYTHONPATH": path, "DASK_DISTRIBUTED__WORKER__PRELOAD": '["other_python"]'}
    # The description of an older package is found first.
    described = folder / f"{name}-0.0.1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.1\n")
    return {"PYTHONPATH": path}


@pytest.mark.filterwarnings("ignore::distributed.versions.VersionMismatchWarning")  # dask looks at some packages, too
@pytest.mark.parametrize(("name", "version"), [("opdiff", "0.0.1"), ("numpy", "0.0.1"), ("python", "3.11.99")])
def test_worker_with_another_version_is_refused(
    processes: ClusterProcesses, tmp_path: Path, name: str, version: str
) -> None:
    """One that joins later gets no jobs."""
    with open_cluster(processes.address) as cluster:
        processes.add_workers("old", **other_software(name, tmp_path))
        cluster._client.wait_for_workers(2, timeout=30)
        work: BatchWork[int, object] = BatchWork(Each(process_id), lambda _job, reason: reason, lambda _job: 16 << 20)
        found = [result for _, result in cluster.run(work, range(8))]
        found += list(cluster.map(process_id, range(8)))
    here = dict(software_versions())[name]
    message = rf"has {name} {re.escape(version)}, here it is {re.escape(here)}"
    with pytest.raises(InputError, match=message), open_cluster(processes.address):
        pass
    processes.kill("old")
    assert set(found) == {processes.workers["w0"].pid}


def test_cluster_whose_workers_all_have_another_version(tmp_path: Path) -> None:
    """They take the place of the one that was there at first."""
    home = tmp_path / "cluster"
    home.mkdir()
    with running_cluster(home, "w0") as processes, open_cluster(processes.address) as cluster:
        processes.add_workers("old", **other_software("opdiff", tmp_path))
        cluster._client.wait_for_workers(2, timeout=30)
        processes.kill("w0")
        work: BatchWork[int, object] = BatchWork(Each(process_id), lambda _job, reason: str(reason), lambda _job: 1)
        found = [str(result) for _, result in cluster.run(work, range(3))]
        assert all("has opdiff 0.0.1, here it is" in result for result in found)
        with pytest.raises(InputError, match=r"has opdiff 0\.0\.1, here it is"):
            list(cluster.map(process_id, range(3)))


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        ("somewhere", UsageError, "somewhere is not the address of a cluster: give tcp://HOST:PORT"),
        ("local:0", UsageError, "local:0 is not the address of a cluster"),
        ("tcp://127.0.0.1:1", InputError, "no scheduler can be reached"),
        ("nonsense://127.0.0.1:1", InputError, "no scheduler can be reached"),
    ],
)
def test_unusable_address(address: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    config = tmp_path / "dask.yaml"
    config.write_text("distributed: {comm: {timeouts: {connect: 300ms}}}")
    with pytest.raises(error, match=message), open_cluster(address, str(config)):
        pass


@pytest.mark.parametrize("content", [None, b"[1, 2]", b"a: [", b"\xff"], ids=["missing", "list", "broken", "binary"])
def test_unusable_config(content: bytes | None, tmp_path: Path) -> None:
    config = tmp_path / "dask.yaml"
    if content is not None:
        config.write_bytes(content)
    with pytest.raises(InputError, match="settings of dask"), open_cluster("local:1", str(config)):
        pass


def test_scheduler_without_workers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_MAX_SECONDS_UNTIL_WORKERS", 0.2)
    with (
        running_cluster(tmp_path) as processes,
        pytest.raises(InputError, match=r"the cluster has had no workers for 0\.2 s"),
        open_cluster(processes.address),
    ):
        pass


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'opdiff\[cluster\]'"), open_cluster("local:1"):
        pass


def documented_certificates(folder: Path) -> Path:
    """Make certificates by the documented command, with a shorter key; return the documented settings of dask."""
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()
    (command,) = re.findall(r"^openssl req .+$", page, re.MULTILINE)
    (settings,) = re.findall(r"^distributed:\n  comm:\n.+?(?=^```)", page, re.MULTILINE | re.DOTALL)
    subprocess.run(shlex.split(command.replace("rsa:4096", "rsa:2048")), cwd=folder, check=True, capture_output=True)
    config = folder / "dask.yaml"
    config.write_text(settings.replace("/etc/opdiff-cluster", str(folder)))
    return config


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_certificates(tmp_path: Path) -> None:
    """Nobody without the key of the cluster is let in."""
    configs = []
    for name in ("own", "stranger"):
        (tmp_path / name).mkdir()
        configs.append(documented_certificates(tmp_path / name))
    with configs[1].open("a") as file:
        file.write("    timeouts: {connect: 500ms}\n")
    with running_cluster(tmp_path, "w0", DASK_CONFIG=str(configs[0])) as processes:
        assert processes.address.startswith("tls://")
        with open_cluster(processes.address, str(configs[0])) as cluster:
            assert doubled(cluster) == [0, 2, 4]
        for config in (str(configs[1]), ""):
            with (
                pytest.raises(InputError, match="no scheduler can be reached"),
                open_cluster(processes.address, config),
            ):
                pass


def test_local_workers_are_reached_from_this_machine_and_by_their_client_only() -> None:
    with open_cluster("local:2") as cluster:
        work: BatchWork[int, int] = BatchWork(Each(process_id), lambda _job, _reason: -1, lambda _job: 16 << 20)
        found = {result for _, result in cluster.run(work, range(8))}
        listening = [
            connection.laddr.ip
            for process in map(psutil.Process, (os.getpid(), *found))
            for connection in process.net_connections()
            if connection.status == psutil.CONN_LISTEN
        ]
        assert len(found) == 2
        assert os.getpid() not in found
        assert set(listening) == {"127.0.0.1"}
        assert cluster._client.scheduler.address.startswith("tls://")
    assert not any(map(psutil.pid_exists, found))


def test_local_workers_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Semaphores are files in /dev/shm, which may be full or missing."""

    def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(SemLock, "__init__", refuse)
    message = re.escape(f"no workers can be started on this machine: {os.strerror(errno.ENOSPC)}")
    with pytest.raises(InputError, match=message), open_cluster("local:1"):
        pass


def test_a_client_opens_no_port(processes: ClusterProcesses) -> None:
    before = listening_ports()
    with open_cluster(processes.address) as cluster:
        assert doubled(cluster) == [0, 2, 4]
        assert listening_ports() == before


def listening_ports() -> set[int]:
    found = psutil.Process().net_connections()
    return {connection.laddr.port for connection in found if connection.status == psutil.CONN_LISTEN}
