"""A scheduler and workers of dask.distributed, each in its own process, on the loopback address."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

_TESTS = Path(__file__).parent
_MAX_SECONDS = 30
HOSTS = ("npu-1", "npu-2", "npu-3")
"""Names of the workers of `running_hosts`, which stand for hosts."""

_NO_PAGES = "--no-dashboard", "--dashboard-address", "127.0.0.1:0"


class ClusterProcesses:
    """A scheduler, and workers by name; a worker that was killed is not started again by itself."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self._folder = folder
        self._environment = os.environ | {"PYTHONPATH": str(_TESTS)} | settings
        self._scheduler_file = folder / "scheduler.json"
        # Settings with certificates are a file.
        listening = "--protocol", "tls" if "DASK_CONFIG" in settings else "tcp"
        file = "--scheduler-file", str(self._scheduler_file)
        address = "--host", "127.0.0.1", "--port", "0"
        self.scheduler = self._start("scheduler", *address, *_NO_PAGES, *listening, *file)
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def scheduler_file(self) -> Path:
        """The file of the scheduler's address."""
        wait_until(lambda: self._scheduler_file.exists() and bool(self._scheduler_file.read_text()), _MAX_SECONDS)
        return self._scheduler_file

    @property
    def address(self) -> str:
        """The scheduler's address."""
        found: str = json.loads(self.scheduler_file.read_text())["address"]
        return found

    def add_workers(self, *names: str, **settings: str) -> None:
        """Start the workers of these names that do not run."""
        for name in names:
            if name not in self.workers or self.workers[name].poll() is not None:
                # Addresses tell hosts apart.
                address = f"127.0.0.{2 + [*self.workers, name].index(name)}"
                options = "--name", name, "--nthreads", "1", "--no-nanny", "--host", address, *_NO_PAGES
                folder = self.folder_of(name)
                more = "--local-directory", str(folder), "--scheduler-file", str(self.scheduler_file)
                self.workers[name] = self._start("worker", *options, *more, folder=folder, **settings)

    def folder_of(self, name: str) -> Path:
        """Return the current folder of a worker: `/proc/self/cwd` are different files on different workers."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def kill(self, *names: str) -> None:
        """Kill workers."""
        for name in names:
            self.workers[name].kill()
            self.workers[name].wait()

    def end(self) -> None:
        """Kill all processes."""
        for process in (*self.workers.values(), self.scheduler):
            process.kill()
            process.wait()

    def _start(self, *words: str, folder: Path | None = None, **settings: str) -> subprocess.Popen[bytes]:
        log = self._folder / "cluster.log"
        with log.open("ab") as file:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *words],
                stdout=file,
                stderr=file,
                env=self._environment | settings,
                cwd=folder or self._folder,
            )


@contextmanager
def running_cluster(folder: Path, *workers: str, **settings: str) -> Iterator[ClusterProcesses]:
    """Start a scheduler and workers of these names; settings of dask are environment variables."""
    processes = ClusterProcesses(folder, settings)
    try:
        processes.add_workers(*workers)
        yield processes
    finally:
        processes.end()


@contextmanager
def running_hosts(folder: Path) -> Iterator[ClusterProcesses]:
    """Start a worker for each of `HOSTS`, in a cluster in which a task does not survive its worker."""
    with running_cluster(folder, *HOSTS, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0") as found:
        yield found


def refuse(*_arguments: object) -> None:
    """Stand for what only workers may do."""
    raise AssertionError("computed by the client")
