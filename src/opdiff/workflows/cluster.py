"""The cluster that does the work of a command, if one is given."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from opdiff.core import filesystem
from opdiff.core.errors import UsageError
from opdiff.core.reasons import Status, because, statuses_of
from opdiff.core.remote.urls import has_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opdiff.core.reasons import Reason
    from opdiff.run.cluster import Cluster


@contextmanager
def find_cluster(
    address: str, config: str = "", on_workers: Callable[[int], None] = lambda _count: None
) -> Iterator[Cluster | None]:
    """Connect to a cluster, as `open_cluster` does; `None` without an address."""
    if not address:
        yield None
        return
    from opdiff.run.connection import open_cluster

    with open_cluster(address, config, on_workers) as cluster:
        yield cluster


def is_unread(reason: Reason | None) -> bool:
    """Return whether a file could not be read, or a program is missing: another host may have them."""
    return Status.NOT_HERE in statuses_of(reason)


def path_for_workers(path: str) -> str:
    """Return a path that is the same on all workers, which have other current folders.

    Raises:
        UsageError: a URL had a password, which workers do not get.
    """
    if has_secret(path):
        raise UsageError(because("compare.no_secrets", path=path))
    return filesystem.abspath(path) if path else ""
