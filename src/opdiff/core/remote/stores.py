"""The stores of this process, one for each user and host; copies of their files, and files to read from."""

from __future__ import annotations

import errno
import io
import mmap
import os
import threading
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.atomic_file import make_folder, open_atomic
from opdiff.core.filesystem import regular_file
from opdiff.core.remote.retries import RemoteError
from opdiff.core.remote.store import ByteRange, Settings, Store
from opdiff.core.remote.urls import origin_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from _typeshed import WriteableBuffer

    from opdiff.core.remote.listing import Item
    from opdiff.core.remote.store import Data
    from opdiff.core.source import FileRange

_BUFFER_NBYTES = 1 << 20

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


class Cache:
    """A folder of copies, for `--cache DIR`: later runs read them instead of the remote files.

    Their names are hashes of URL, size and version, so that names on servers play no role.
    """

    def __init__(self, folder: str) -> None:
        make_folder(folder)
        self._folder = folder

    def find(self, item: Item) -> memoryview | None:
        """Return the content of the copy of a file, mapped; `None` if there is no copy."""
        try:
            descriptor = regular_file(self._path(item))
        except FileNotFoundError:
            return None
        try:
            if os.fstat(descriptor).st_size != item.nbytes:
                return None
            return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)) if item.nbytes else memoryview(b"")
        finally:
            os.close(descriptor)

    def add(self, item: Item, content: Iterable[bytes | memoryview]) -> None:
        """Write the copy of a file; it appears when it is complete."""
        path = self._path(item)
        make_folder(os.path.dirname(path))
        with open_atomic(path) as file:
            for part in content:
                file.write(part)

    def _path(self, item: Item) -> str:
        name = sha256(f"{item.path}\n{item.nbytes}\n{item.version}".encode(errors="surrogatepass")).hexdigest()
        return os.path.join(self._folder, name[:2], name[2:])


class _RemoteFile(io.RawIOBase):
    """A remote file whose ranges are read when they are needed."""

    def __init__(self, url: str, nbytes: int) -> None:
        self._url = url
        self._nbytes = nbytes
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._nbytes}[whence]
        if origin + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self._url)
        self._position = origin + offset
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        target = memoryview(buffer).cast("B")
        nbytes = max(min(len(target), self._nbytes - self._position), 0)
        data = store_of(self._url).read(self._url, self._position, nbytes) if nbytes else b""
        target[: len(data)] = data
        self._position += len(data)
        return len(data)


def open_remote(url: str) -> io.BufferedReader:
    """Open a remote file for reading.

    Raises:
        OSError: it does not exist, cannot be reached, or is not a regular file.
    """
    item = store_of(url).find(url)
    if item is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
    if item.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), url)
    if not item.is_file():
        raise OSError(errno.EINVAL, "not a regular file", url)
    return io.BufferedReader(_RemoteFile(url, item.nbytes), _BUFFER_NBYTES)
