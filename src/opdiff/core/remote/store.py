"""The files of one host or object store: listings, first bytes, and byte ranges, requested in parallel.

Store.items ──► Item, …      Store.preload ──► first bytes of many files      Store.fetch ──► data of byte ranges
"""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field

from opdiff.core.remote.connect import Closable, HasLinks, connect, max_requests
from opdiff.core.remote.listing import Item, ItemKind, item_of, items_of
from opdiff.core.remote.retries import RemoteError, RetryPolicy, expected_errors, with_retries
from opdiff.core.remote.urls import query_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from opdiff.core.remote.connect import Connection, Files
    from opdiff.core.remote.stores import Cache

    Data = bytes | memoryview

Result = TypeVar("Result")

PIECE_NBYTES = 8 << 20
"""Size of one request; after a failure only the pieces that are missing are requested again."""

# Bytes between two ranges that cost less than another request.
_MAX_GAP_NBYTES = 1 << 16
# First bytes of a large file; most headers are shorter.
_HEAD_NBYTES = 1 << 12
# Files up to this size are read as a whole, because a request costs more than their bytes.
_MAX_SMALL_NBYTES = 1 << 16
_MAX_CACHED_NBYTES = 256 << 20


class ByteRange(Struct, frozen=True, order=True):
    """The bytes from `start` to `stop` of a file."""

    url: str
    start: int
    stop: int

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.stop - self.start

    def holds(self, other: ByteRange) -> bool:
        """Return whether another range is a part of this one."""
        return self.url == other.url and self.start <= other.start and other.stop <= self.stop


def merge(ranges: Iterable[ByteRange]) -> list[ByteRange]:
    """Return ranges that hold all given ones; ranges of a file that are close together become one."""
    merged: list[ByteRange] = []
    for url, group in groupby(sorted(ranges), key=attrgetter("url")):
        first, *others = group
        start, stop = first.start, first.stop
        for other in others:
            if other.start > stop + _MAX_GAP_NBYTES:
                merged.append(ByteRange(url, start, stop))
                start, stop = other.start, other.stop
            stop = max(stop, other.stop)
        merged.append(ByteRange(url, start, stop))
    return merged


def pieces(whole: ByteRange) -> Iterator[ByteRange]:
    """Yield the requests for a range."""
    for start in range(whole.start, whole.stop, PIECE_NBYTES):
        yield ByteRange(whole.url, start, min(start + PIECE_NBYTES, whole.stop))


class Settings(Struct, frozen=True):
    """How remote files are read.

    Attributes:
        cache: copies of files on this machine; `None` if there are none.
        max_nbytes: bytes of one tensor that may be in memory; does not apply to cached files.
        retries: repetition of failed requests.
    """

    cache: Cache | None = None
    max_nbytes: int = field(default_factory=lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    retries: RetryPolicy = RetryPolicy()

    def permits(self, nbytes: int) -> bool:
        """Return whether a tensor of this size may be read."""
        return self.cache is not None or nbytes <= self.max_nbytes


class Store:
    """Files of one host or object store.

    Errors of requests are OSErrors with a text in `strerror`. Each thread has a connection of its own, unless the
    library can share one.
    """

    def __init__(self, origin: str, settings: Settings) -> None:
        self.origin = origin
        self.settings = settings
        self._is_down = False
        self._shared: Connection | None = None
        self._own = threading.local()
        self._pool = ThreadPoolExecutor(max_requests(origin), thread_name_prefix="opdiff-remote")
        self._folders: dict[str, dict[str, Item]] = {}
        self._starts = FirstBytes(_MAX_CACHED_NBYTES)

    # Listings

    def items(self, url: str) -> dict[str, Item]:
        """Return the items of a folder by name."""
        if url not in self._folders:
            self._folders[url] = self._request(
                url, lambda files, path: items_of(url, path, files.ls(path, detail=True))
            )
        return self._folders[url]

    def find(self, url: str) -> Item | None:
        """Return a file or folder, links resolved; `None` if it does not exist."""
        parent, _, name = url.rpartition("/")
        item = self._folders.get(parent, {}).get(name)
        if item is not None and item.kind is not ItemKind.LINK:
            return item
        with suppress(FileNotFoundError, NotADirectoryError):
            facts = self._request(url, lambda files, path: files.info(path))
            return item_of(parent, name, facts) if name else Item(url, name, ItemKind.FOLDER)
        return None

    def real_path(self, url: str) -> str:
        """Return a URL without links."""
        path, real = self._request(url, lambda files, path: (path, _without_links(files, path)))
        return url if real == path else f"{self.origin}{real}"

    def forget(self) -> None:
        """Forget listings and first bytes, because files may have changed."""
        self._folders.clear()
        self._starts.clear()

    # Data

    def head(self, url: str) -> Data:
        """Return the first bytes of a file: all of a small one."""
        found = self._starts.find(url)
        if found is None:
            found = self._load_start(url)
        return found

    def preload(self, urls: Iterable[str]) -> None:
        """Read the first bytes of many files in parallel; what fails is requested again when it is needed."""
        wanted = [url for url in dict.fromkeys(urls) if self._starts.find(url) is None]
        for future in [self._pool.submit(self._load_start, url) for url in wanted]:
            with suppress(OSError):
                future.result()

    def _load_start(self, url: str) -> bytes:
        item = self._require(url)
        copy = self.settings.cache.find(item) if self.settings.cache else None
        if copy is not None:
            return bytes(copy[:_HEAD_NBYTES])
        nbytes = item.nbytes if item.nbytes <= _MAX_SMALL_NBYTES else _HEAD_NBYTES
        start = self._read(ByteRange(url, 0, nbytes)) if nbytes else b""
        self._starts.add(url, start)
        return start

    def read(self, url: str, offset: int, nbytes: int) -> Data:
        """Return a range of a file; fewer bytes if it ends before.

        Raises:
            OSError: it cannot be read.
        """
        (found,) = self.fetch([ByteRange(url, offset, offset + nbytes)])
        if isinstance(found, OSError):
            raise found
        return found

    def fetch(self, ranges: Sequence[ByteRange]) -> list[Data | OSError]:
        """Return the bytes of each range, fewer where a file ends, or why there are none."""
        if self.settings.cache is not None:
            return [self._cached(self.settings.cache, wanted) for wanted in ranges]
        known = {wanted: found for wanted in ranges if (found := self._find_known(wanted)) is not None}
        loading = [self._start_loading(span) for span in merge(wanted for wanted in ranges if wanted not in known)]
        loaded: dict[str, list[tuple[ByteRange, memoryview | OSError]]] = {}
        for item in loading:
            loaded.setdefault(item.span.url, []).append((item.span, item.wait()))
        return [known[wanted] if wanted in known else _part(wanted, loaded[wanted.url]) for wanted in ranges]

    def _cached(self, cache: Cache, wanted: ByteRange) -> Data | OSError:
        try:
            item = self._require(wanted.url)
            if cache.find(item) is None:
                whole = ByteRange(wanted.url, 0, item.nbytes)
                cache.add(item, (self._read(piece) for piece in pieces(whole)))
            content = cache.find(item)
        except OSError as error:
            return error
        if content is None:
            return RemoteError(errno.EIO, "the file changed while it was copied", wanted.url)
        return content[wanted.start : wanted.stop]

    def _require(self, url: str) -> Item:
        item = self.find(url)
        if item is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
        return item

    def _find_known(self, wanted: ByteRange) -> Data | None:
        start = self._starts.find(wanted.url)
        # Other lengths than that of a head are those of whole files.
        if start is None or (wanted.stop > len(start) and len(start) == _HEAD_NBYTES):
            return None
        return memoryview(start)[wanted.start : wanted.stop]

    def _start_loading(self, span: ByteRange) -> _Loading:
        buffer = bytearray(span.nbytes)
        loading = _Loading(span, buffer)
        for piece in pieces(span):
            target = memoryview(buffer)[piece.start - span.start : piece.stop - span.start]
            loading.pieces.append((piece, self._pool.submit(self._fill, piece, target)))
        return loading

    def _fill(self, piece: ByteRange, target: memoryview) -> int:
        data = self._read(piece)
        target[: len(data)] = data
        return len(data)

    def _read(self, wanted: ByteRange) -> bytes:
        return self._request(
            wanted.url, lambda files, path: bytes(files.cat_file(path, start=wanted.start, end=wanted.stop))
        )

    # Requests

    def _request(self, url: str, action: Callable[[Files, str], Result]) -> Result:
        """Return the result of a request. After a final failure, others are not repeated until one succeeds."""

        def attempt() -> Result:
            connection = self._connect()
            return action(connection.files, connection.path_of(url + query_of(url)))

        policy = RetryPolicy(attempts=1) if self._is_down else self.settings.retries
        try:
            result = with_retries(attempt, self._disconnect, url, policy)
        except (FileNotFoundError, PermissionError, IsADirectoryError):
            raise
        except OSError:
            self._is_down = True
            raise
        self._is_down = False
        return result

    def _connect(self) -> Connection:
        own: Connection | None = self._shared or getattr(self._own, "connection", None)
        if own is None:
            own = connect(self.origin)
            if own.is_shared:
                self._shared = own
            else:
                self._own.connection = own
        return own

    def _disconnect(self) -> None:
        """Close the connection of this thread; the next request opens another one."""
        own: Connection | None = getattr(self._own, "connection", None)
        self._own.connection = None
        if own is not None and isinstance(own.files, Closable):
            with suppress(*expected_errors()):
                own.files.close()


def _without_links(files: Files, path: str) -> str:
    return files.real_path(path) if isinstance(files, HasLinks) else path


class FirstBytes:
    """First bytes of files, up to a total size; the oldest are dropped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._nbytes = 0
        self._found: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def find(self, url: str) -> bytes | None:
        """Return the first bytes of a file if they are known."""
        return self._found.get(url)

    def add(self, url: str, start: bytes) -> None:
        """Add the first bytes of a file."""
        with self._lock:
            self._nbytes += len(start) - len(self._found.pop(url, b""))
            self._found[url] = start
            while self._nbytes > self._limit:
                oldest = next(iter(self._found))
                self._nbytes -= len(self._found.pop(oldest))

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._found.clear()
            self._nbytes = 0


class _Loading:
    """A range whose pieces are under way."""

    def __init__(self, span: ByteRange, buffer: bytearray) -> None:
        self.span, self.buffer = span, buffer
        self.pieces: list[tuple[ByteRange, Future[int]]] = []

    def wait(self) -> memoryview | OSError:
        """Return the bytes up to the end of the file, or why there are none."""
        available, failure = self.span.nbytes, None
        for piece, future in self.pieces:
            try:
                got = future.result()
            except OSError as error:
                failure = error
                continue
            if got < piece.nbytes:
                available = min(available, piece.start + got - self.span.start)
        return failure or memoryview(self.buffer)[:available]


def _part(wanted: ByteRange, loaded: Sequence[tuple[ByteRange, memoryview | OSError]]) -> Data | OSError:
    span, data = next(item for item in loaded if item[0].holds(wanted))
    if isinstance(data, OSError):
        return data
    return data[wanted.start - span.start : wanted.stop - span.start]
