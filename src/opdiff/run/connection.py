"""Connections to clusters: an address, a scheduler file, or workers on this machine."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import because
from opdiff.run.child_processes import without_current_folder, without_interrupts
from opdiff.run.cluster import Cluster
from opdiff.run.worker_task import software_versions, version_differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from distributed import Client, LocalCluster

_LOCAL = re.compile(r"local:([1-9][0-9]{0,2})")
_ADDRESS = re.compile(r"[a-z]+://.+")
_MAX_SECONDS_UNTIL_WORKERS = 30.0
_MAX_LISTED_WORKERS = 3
# Rules of large models are sent once, compressed; dask warns of data that it takes for a mistake.
_OWN_SETTINGS: dict[str, Any] = {"distributed": {"admin": {"large-graph-warning-threshold": "1GB"}}}
# Settings of dask for workers of this machine, which nobody watches by a browser.
_LOCAL_SETTINGS: dict[str, object] = {
    # Nothing is served by HTTP; dask opens that port in any case.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    # Records for the pages; they take 6 % of a processor.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.system-monitor.gil.enabled": False,
}


@contextmanager
def open_cluster(
    address: str, config: str = "", on_workers: Callable[[int], None] = lambda _count: None
) -> Iterator[Cluster]:
    """Connect to a cluster, and disconnect at the end; workers that were started for this connection end, too.

    Args:
        address: `tcp://host:8786`, `tls://host:8786`, a scheduler file, or `local:N` for N processes of this machine.
        config: YAML file with settings of dask, such as TLS settings; empty for none.
        on_workers: called with the number of workers, about once a second.

    Raises:
        UsageError: this is no address, or dask.distributed is not installed.
        InputError: there is no scheduler, the scheduler has no workers, or the software of the workers differs.
    """
    try:
        import dask
        import distributed  # noqa: F401  settings of dask are read before a connection is made
    except ImportError as error:
        raise UsageError(because("run.needs_dask")) from error
    settings = dask.config.merge(dask.config.config, _OWN_SETTINGS, _read_config(config))
    with dask.config.set(settings), _connect(address) as client:
        _check_workers(client, address)
        yield Cluster(client, on_workers)


def _read_config(path: str) -> Mapping[str, Any]:
    if not path:
        return {}
    import yaml

    try:
        with open(path, encoding="utf-8") as file:
            settings = yaml.safe_load(file)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(path, because("run.config_unreadable", error=str(error))) from error
    if not isinstance(settings, dict):
        raise InputError(path, because("run.config_unreadable", error="it is not a mapping"))
    return settings


@contextmanager
def _connect(address: str) -> Iterator[Client]:
    from distributed import Client

    local = _LOCAL.fullmatch(address)
    if local:
        with (
            without_current_folder(),
            TemporaryDirectory(prefix="opdiff-", ignore_cleanup_errors=True) as scratch,
            _local_workers(int(local[1]), scratch) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    is_file = os.path.isfile(address)
    if not is_file and not _ADDRESS.fullmatch(address):
        raise UsageError(because("run.not_an_address", address=address))
    try:
        client = Client(**({"scheduler_file": address} if is_file else {"address": address}), set_as_default=False)
    except (OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
        raise InputError(address, because("run.no_scheduler", error=str(error))) from error
    with client:
        yield client


def _local_workers(count: int, scratch: str) -> LocalCluster:
    """Start workers that listen on the loopback address only, and talk to clients that have their certificate only.

    Args:
        count: number of processes.
        scratch: private folder. Dask looks for modules there first, and its default is a folder that others can make.

    Raises:
        InputError: they cannot be started, since the system refuses something.
    """
    import logging

    import dask
    from distributed import LocalCluster, Security

    with dask.config.set(_LOCAL_SETTINGS | {"temporary-directory": scratch}), without_interrupts():
        try:
            return LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                memory_limit=None,
                host="127.0.0.1",
                security=Security.temporary(),
                silence_logs=logging.CRITICAL,
                scheduler_kwargs={"allowed_failures": 1, "dashboard": False, "dashboard_address": "127.0.0.1:0"},
                preload="opdiff.run.worker_task",
            )
        except RuntimeError as error:
            problem = because("run.no_local_workers", error=_refused(error) or str(error))
            raise InputError(f"local:{count}", problem) from error


def _refused(error: BaseException | None) -> str | None:
    """Return what the system refused while dask started a process; dask itself only says that it could not."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return None if error is None else error.strerror


def _check_workers(client: Client, address: str) -> None:
    """Check that there are workers, and that they have our software.

    Raises:
        InputError: there are none, or their software differs.
    """
    try:
        client.wait_for_workers(1, timeout=_MAX_SECONDS_UNTIL_WORKERS)
    except TimeoutError as error:
        raise InputError(address, because("run.no_workers", seconds=_MAX_SECONDS_UNTIL_WORKERS)) from error
    here = dict(software_versions())
    found = client.get_versions(packages=["opdiff"])["workers"]
    different = tuple(
        difference
        for worker, software in sorted(found.items())
        for difference in version_differences(worker, _versions_of(software), here)
    )
    if different:
        raise InputError(address, because("run.versions_differ", differences=different[:_MAX_LISTED_WORKERS]))


def _versions_of(software: Mapping[str, Any]) -> dict[str, str]:
    packages = software["packages"]
    # Dask writes 3.11.7.final.0.
    python = ".".join(software["host"]["python"].split(".")[:3])
    return {"opdiff": packages["opdiff"], "numpy": packages["numpy"], "python": python}
