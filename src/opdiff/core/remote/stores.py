"""The stores of this process: one for each user and host."""

from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.remote.cache import Cache
from opdiff.core.remote.ranges import ByteRange
from opdiff.core.remote.retries import RemoteError
from opdiff.core.remote.store import Settings, Store
from opdiff.core.remote.urls import origin_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.remote.store import Data
    from opdiff.core.source import FileRange

_stores: dict[str, Store] = {}
_lock = threading.Lock()
_settings = [Settings()]


def store_of(url: str) -> Store:
    """Return the store of a URL."""
    origin = origin_of(url)
    with _lock:
        if origin not in _stores:
            _stores[origin] = Store(origin, _settings[0])
        return _stores[origin]


def start_run(cache: str = "", memory: int = 0) -> None:
    """Forget listings, because files may have changed, and set how files are read.

    Args:
        cache: folder of copies on this machine; empty for none.
        memory: bytes of remote data of one tensor that may be in memory; 0 for half of the machine's.
    """
    settings = Settings(cache=Cache(cache) if cache else None)
    settings = replace(settings, max_nbytes=memory) if memory else settings
    with _lock:
        _settings[0] = settings
        for store in _stores.values():
            store.settings = settings
            store.forget()


def fetch_all(sources: Sequence[FileRange]) -> list[Data | OSError]:
    """Return the data of tensors in any stores, fewer bytes where a file ends, or why there is none."""
    wanted = [ByteRange(source.path, source.offset, source.offset + source.nbytes) for source in sources]
    found: dict[ByteRange, Data | OSError] = {}
    for store in {store_of(item.url) for item in wanted}:
        own = [item for item in wanted if store_of(item.url) is store]
        fitting = [item for item in own if store.settings.permits(item.nbytes)]
        found |= zip(fitting, store.fetch(fitting), strict=True)
        found |= {item: _too_large(item, store.settings.max_nbytes) for item in own if item not in found}
    return [found[item] for item in wanted]


def _too_large(item: ByteRange, limit: int) -> OSError:
    problem = f"{item.nbytes} bytes exceed the limit of {limit} for remote data in memory (none with --cache DIR)"
    return RemoteError(errno.EFBIG, problem, item.url)
