"""Files on the hosts of a cluster, `host://HOST/PATH`, which users write as `HOST:PATH`.

A worker on that host reads them as its own files. Other processes let such a worker read them.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from opdiff.core.errors import InputError, UsageError
from opdiff.core.input_file import regular_file
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


Result = TypeVar("Result")

_PREFIX = "host://"
# As for copies by ssh; a drive letter or a URL is not meant.
_SIDE = r"([A-Za-z0-9][A-Za-z0-9_.-]+):(/(?!/).*)"


class HostCall(Protocol):
    """How functions are run on hosts."""

    def __call__(self, host: str, function: Callable[..., Result], arguments: tuple[object, ...]) -> Result:
        """Return the result of a function on a host."""


# How functions are run on hosts, and the hosts whose files are those of this process.
_calls: list[HostCall] = []
_own_hosts: set[str] = set()


def is_host_side(side: str) -> bool:
    """Return whether a side of a comparison is written as `HOST:PATH`, and no file of this machine has such a name."""
    return ":" in side and re.fullmatch(_SIDE, side) is not None and not os.path.exists(side)


def host_url(side: str) -> str:
    """Return `HOST:PATH` as a URL, anything else as it is."""
    host, _, path = side.partition(":")
    return url_on(host, path) if is_host_side(side) else side


def url_on(host: str, path: str) -> str:
    """Return a path on a host as a URL; as it is for an empty host."""
    return f"{_PREFIX}{host}{path}" if host else path


def host_of(path: str) -> str:
    """Return the host of a URL of this kind; empty for other paths."""
    return path.removeprefix(_PREFIX).partition("/")[0] if path.startswith(_PREFIX) else ""


def path_of(url: str) -> str:
    """Return the path of a URL of this kind on its host."""
    return f"/{url.removeprefix(_PREFIX).partition('/')[2]}"


def own_path(path: str) -> str:
    """Return the path of a file that is on the host of this process; other paths as they are."""
    return path_of(path) if _own_hosts and host_of(path) in _own_hosts else path


def add_own_host(host: str) -> None:
    """Note that this process runs on a host."""
    _own_hosts.add(host)


@contextmanager
def reachable_hosts(call: HostCall) -> Iterator[None]:
    """Let files on hosts be read by a function that runs others there."""
    _calls.append(call)
    try:
        yield
    finally:
        _calls.remove(call)


class HostFiles:
    """The files of one host, with the methods of a file system of fsspec that are used."""

    def __init__(self, host: str) -> None:
        self._host = host

    def ls(self, path: str, *, detail: bool) -> list[Mapping[str, object]]:
        """Return name, type, size and time of the items of a folder."""
        del detail
        return self._call(list_files, path)

    def info(self, path: str) -> Mapping[str, object]:
        """Return name, type, size and time of a file or folder, links resolved."""
        return self._call(describe_file, path)

    def cat_file(self, path: str, *, start: int, end: int) -> bytes:
        """Return a range of a file; fewer bytes if it ends before."""
        return self._call(read_range, path, start, end)

    def real_path(self, path: str) -> str:
        """Return a path without links."""
        return self._call(real_path, path)

    def _call(self, function: Callable[..., Result], *arguments: object) -> Result:
        if self._host in _own_hosts:
            return function(*arguments)
        if not _calls:
            raise UsageError(because("core.host_without_cluster", host=self._host))
        try:
            return _calls[-1](self._host, function, arguments)
        except InputError as error:
            raise ConnectionError(None, str(error.reason)) from error


# On the host


def list_files(path: str) -> list[Mapping[str, object]]:
    """Return name, type, size and time of the items of a folder."""
    with os.scandir(path) as listing:
        return [_facts(item.path, item.stat(follow_symlinks=False)) for item in listing]


def describe_file(path: str) -> Mapping[str, object]:
    """Return name, type, size and time of a file or folder, links resolved."""
    return _facts(path, os.stat(path))


def real_path(path: str) -> str:
    """Return a path without links."""
    return os.path.realpath(path)


def read_range(path: str, start: int, end: int) -> bytes:
    """Return a range of a file; fewer bytes if it ends before."""
    with open(path, "rb", opener=regular_file) as file:
        file.seek(start)
        return file.read(end - start)


def _facts(path: str, status: os.stat_result) -> Mapping[str, object]:
    kinds = (("file", stat.S_ISREG), ("directory", stat.S_ISDIR), ("link", stat.S_ISLNK))
    kind = next((kind for kind, test in kinds if test(status.st_mode)), "other")
    return {"name": path, "type": kind, "size": status.st_size, "mtime": status.st_mtime_ns}
