"""The cluster that does the work of a command, if one is given."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from opdiff.core.reasons import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opdiff.core.reasons import Reason
    from opdiff.run.cluster import Cluster

UNREADABLE = frozenset({"core.cannot_open", "core.cannot_read"})
"""Reasons of results whose files could not be read, which another host may be able to."""


@contextmanager
def find_cluster(
    address: str, config: str = "", on_workers: Callable[[int], None] = lambda _count: None
) -> Iterator[Cluster | None]:
    """Connect to a cluster, as `open_cluster` does; without an address there is none."""
    if not address:
        yield None
        return
    from opdiff.run.connection import open_cluster

    with open_cluster(address, config, on_workers) as cluster:
        yield cluster


def is_unread(reason: Reason | None) -> bool:
    """Return whether files could not be read, perhaps because another host has them."""
    return reason is not None and not UNREADABLE.isdisjoint(kind_of(reason))
