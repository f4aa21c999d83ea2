"""Connections to hosts and object stores, with credentials from the usual places of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable
from urllib.parse import quote

from msgspec import Struct

from opdiff.core.errors import UsageError
from opdiff.core.reasons import because
from opdiff.core.remote.urls import masked, password_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Result = TypeVar("Result")

_TIMEOUT_S = 30
_SFTP = ("sftp", "ssh")
_S3 = ("s3", "s3a")
_WEB = ("http", "https")
# Schemes whose libraries share one connection pool between threads.
_STATELESS = (*_S3, "gs", "gcs", "az", "abfs", *_WEB)
# Schemes of files on this machine, whose links would not be checked.
_LOCAL = ("file", "local")
_MAX_LOGINS, _MAX_STATELESS_REQUESTS = 4, 16


class Files(Protocol):
    """The methods of a file system of fsspec that are used."""

    def ls(self, path: str, *, detail: bool) -> list[Mapping[str, object]]:
        """Return name, type and size of the items of a folder."""

    def info(self, path: str) -> Mapping[str, object]:
        """Return name, type and size of a file or folder."""

    def cat_file(self, path: str, *, start: int, end: int) -> bytes:
        """Return a range of a file; fewer bytes if it ends before."""


@runtime_checkable
class Closable(Protocol):
    """A connection that can be closed."""

    def close(self) -> None:
        """Close the connection."""


@runtime_checkable
class HasLinks(Protocol):
    """A file system with links."""

    def real_path(self, path: str) -> str:
        """Return a path without links."""


class Connection(Struct, frozen=True):
    """An open file system.

    Attributes:
        files: the file system.
        path_of: returns the path of a URL in it.
        is_shared: whether several threads may use it at once.
    """

    files: Files
    path_of: Callable[[str], str]
    is_shared: bool = False


def max_requests(origin: str) -> int:
    """Return the number of requests at once: few where each thread has its own login, which servers limit."""
    return _MAX_STATELESS_REQUESTS if origin.partition("://")[0] in _STATELESS else _MAX_LOGINS


def connect(origin: str) -> Connection:
    """Connect to a host or an object store.

    Raises:
        UsageError: the scheme is unknown, or a library is not installed.
        OSError: there is no connection.
    """
    scheme = origin.partition("://")[0].lower()
    if scheme in _LOCAL:
        raise UsageError(because("core.local_url", origin=origin, scheme=scheme))
    try:
        return _connect_sftp(origin) if scheme in _SFTP else _connect_other(origin, scheme)
    except ImportError as error:
        problem = because("core.remote_libraries", scheme=scheme, error=str(error))
        raise UsageError(problem) from error
    except ValueError as error:
        raise UsageError(because("core.in_file", path=origin, problem=masked(str(error)))) from error


def _connect_sftp(origin: str) -> Connection:
    from opdiff.core.remote.sftp import SftpFiles, sftp_path

    return Connection(SftpFiles(origin), sftp_path)


def _connect_other(origin: str, scheme: str) -> Connection:
    from fsspec.core import strip_protocol, url_to_fs

    options: dict[str, object] = {"use_listings_cache": False}
    if scheme in _S3:
        timeouts = {"connect_timeout": _TIMEOUT_S, "read_timeout": _TIMEOUT_S}
        options["config_kwargs"] = {**timeouts, "retries": {"total_max_attempts": 1}}
    if scheme in _WEB:
        from opdiff.core.remote.redirects import refuse_other_hosts

        options["client_kwargs"] = {"trace_configs": [refuse_other_hosts()]}
    files, _ = url_to_fs(_with_password(origin), **options)
    if scheme in _S3:
        files.retries = 1  # requests are repeated by `retries`
    return Connection(files, strip_protocol, bool(files.async_impl))


def _with_password(origin: str) -> str:
    password = password_of(origin)
    if password is None:
        return origin
    scheme, _, rest = origin.partition("://")
    user, _, host = rest.rpartition("@")
    return f"{scheme}://{user}:{quote(password, safe='')}@{host}"
