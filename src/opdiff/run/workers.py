"""The workers of a cluster, looked at once a second: their hosts, their threads, and which workers are gone."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.reasons import Reason, Status, because
from opdiff.run.worker_task import Sender

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from distributed import Client

SECONDS_PER_LOOK = 1.0
# Workers that a supervisor starts again are back within this time.
_MAX_SECONDS_WITHOUT_WORKERS = 60.0
# Names that dask gives to the workers of `dask worker --name NAME --nworkers N`.
_NUMBERED = re.compile(r"(.+)-[0-9]+")


class WorkerInfo(Struct, frozen=True):
    """One worker: its address, its name, the address of its host, and its threads."""

    address: str
    name: str
    ip: str
    threads: int

    @property
    def host(self) -> str:
        """The host, by the name and address of the worker: workers of one host have the same host."""
        return f"{self._family}@{self.ip}"

    @property
    def _family(self) -> str:
        """The name without the number of the process; empty for a name that dask made."""
        if self.name == self.address or self.name.isdecimal():
            return ""
        numbered = _NUMBERED.fullmatch(self.name)
        return numbered[1] if numbered else self.name

    def is_of(self, host: str) -> bool:
        """Return whether this worker runs on a host, by its name or address; an empty string means any host."""
        return not host or host in (self.name, self._family, self.ip)


class Workers:
    """The workers of one scheduler; `sender` is the name of this run in its tasks."""

    def __init__(self, client: Client, on_workers: Callable[[int], None]) -> None:
        self.sender = Sender()
        self._client = client
        self._on_workers = on_workers
        self._found: tuple[WorkerInfo, ...] = ()
        self._looked_at = 0.0
        self._seen_at: dict[str, float] = {}

    def look(self) -> bool:
        """Note which workers there are, at most once a second; return whether they were noted now."""
        now = time.monotonic()
        if now - self._looked_at < SECONDS_PER_LOOK:
            return False
        self._looked_at = now
        self._found = self._find()
        self._on_workers(len(self._found))
        return True

    def threads(self, host: str = "") -> int:
        """Return the number of threads on a host, or on all."""
        return sum(worker.threads for worker in self._found if worker.is_of(host))

    def addresses(self, host: str = "", avoided: Collection[str] = ()) -> list[str]:
        """Return the workers on a host, or on all hosts, without workers on avoided hosts."""
        return [worker.address for worker in self._found if worker.is_of(host) and worker.host not in avoided]

    def host_of(self, address: str) -> str:
        """Return the host of a worker; the address of the worker if it is gone."""
        return next((worker.host for worker in self._found if worker.address == address), address)

    def by_task(self) -> dict[str, str]:
        """Return the worker that has each task, by the key of the task."""
        try:
            processing = self._client.processing()
        except (OSError, TimeoutError):
            return {}
        return {key: address for address, keys in processing.items() for key in keys}

    def obstacle(self, host: str = "") -> Reason | None:
        """Return why no task can run on a host, or on any host, any more; `None` if tasks can run."""
        if self._client.status == "closed":
            return because("run.scheduler_lost", Status.INTERRUPTED)
        now = time.monotonic()
        if self.threads(host):
            self._seen_at[host] = now
        elif now - self._seen_at.setdefault(host, now) > _MAX_SECONDS_WITHOUT_WORKERS:
            if host:
                return because(
                    "run.no_workers_of_host", Status.INTERRUPTED, host=host, seconds=_MAX_SECONDS_WITHOUT_WORKERS
                )
            return because("run.no_workers", Status.INTERRUPTED, seconds=_MAX_SECONDS_WITHOUT_WORKERS)
        return None

    def _find(self) -> tuple[WorkerInfo, ...]:
        if self._client.status != "running":
            return ()
        try:
            found = self._client.sync(self._client.scheduler.identity)["workers"]
        except (OSError, TimeoutError):
            return ()
        return tuple(
            WorkerInfo(address, str(info["name"]), info["host"], info["nthreads"]) for address, info in found.items()
        )
