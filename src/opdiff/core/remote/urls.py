"""URLs of remote files, and the passwords in them, which are never part of a path.

Files on the hosts of a cluster are `host://HOST/PATH`, which users write as `HOST:PATH`. A worker on that host reads
them as its own files. Other processes let such a worker read them.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from opdiff.core.errors import UsageError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Result = TypeVar("Result")

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*://"
# User and password.
_LOGIN = r"([A-Za-z][A-Za-z0-9+.-]*://)([^/@:\s]*):([^/\s]*)@([^/@\s,]*)"
# A password with a slash: the part before the slash looks like a host with a port that is not a number.
_SPLIT_LOGIN = r"[A-Za-z][A-Za-z0-9+.-]*://[^/@:\s]*:(?![0-9]*(?:/|$))[^/\s]*/\S*@"
# Parameters that grant access, such as those of signed URLs.
_QUERY = r"(https?://[^?#\s]*)\?(\S*)"

_HOST_PREFIX = "host://"
# As for copies by ssh; a drive letter or a URL is not meant.
_SIDE = r"([A-Za-z0-9][A-Za-z0-9_.-]+):(/(?!/).*)"

# Passwords by scheme, user and host, and queries by URL, as they were given to this process.
_passwords: dict[str, str] = {}
_queries: dict[str, str] = {}


def is_remote(path: str) -> bool:
    """Return whether a path is a URL."""
    return "://" in path and re.match(_SCHEME, path) is not None


def origin_of(url: str) -> str:
    """Return scheme, user and host of a URL."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def without_secrets(text: str) -> str:
    """Return a text without the passwords and queries of its URLs, which `password_of` and `query_of` return later.

    Raises:
        UsageError: a password is not percent-encoded, so that its end is unknown.
    """
    if "://" not in text:
        return text
    text = re.sub(_LOGIN, _keep_password, text)
    if re.search(_SPLIT_LOGIN, text):
        raise UsageError(because("core.password_in_url"))
    return re.sub(_QUERY, _keep_query, text)


def _keep_password(match: re.Match[str]) -> str:
    from urllib.parse import unquote

    scheme, user, password, host = match.groups()
    origin = f"{scheme}{user}@{host}" if user else f"{scheme}{host}"
    _passwords[origin] = unquote(password)
    return origin


def _keep_query(match: re.Match[str]) -> str:
    _queries[match[1]] = match[2]
    return match[1]


def password_of(url: str) -> str | None:
    """Return the password that was given for the user and host of a URL; `None` if none was."""
    return _passwords.get(origin_of(url))


def query_of(url: str) -> str:
    """Return the query that was given with a URL, with its question mark; empty if none was."""
    return f"?{_queries[url]}" if url in _queries else ""


def has_secret(url: str) -> bool:
    """Return whether a password or a query was given with a URL, which other processes do not have."""
    return origin_of(url) in _passwords or url in _queries


def masked(text: str) -> str:
    """Return a text, such as an error message of a library, without the passwords and queries that were given."""
    for secret in (*_passwords.values(), *_queries.values()):
        text = text.replace(secret, "***") if secret else text
    return text


# Hosts of a cluster


class HostCall(Protocol):
    """How functions are run on hosts."""

    def __call__(self, host: str, function: Callable[..., Result], arguments: tuple[object, ...]) -> Result:
        """Return the result of a function on a host."""


# How functions are run on hosts, and the hosts whose files are those of this process.
host_calls: list[HostCall] = []
own_hosts: set[str] = set()


def is_host_side(side: str) -> bool:
    """Return whether a side of a comparison is written as `HOST:PATH`, and no file of this machine has such a name."""
    return ":" in side and re.fullmatch(_SIDE, side) is not None and not os.path.exists(side)


def host_url(side: str) -> str:
    """Return `HOST:PATH` as a URL, anything else as it is."""
    host, _, path = side.partition(":")
    return url_on(host, path) if is_host_side(side) else side


def url_on(host: str, path: str) -> str:
    """Return a path on a host as a URL; as it is for an empty host."""
    return f"{_HOST_PREFIX}{host}{path}" if host else path


def host_of(path: str) -> str:
    """Return the host of a cluster that a URL names; empty for other paths."""
    return path.removeprefix(_HOST_PREFIX).partition("/")[0] if path.startswith(_HOST_PREFIX) else ""


def path_of(url: str) -> str:
    """Return the path of such a URL on its host."""
    return f"/{url.removeprefix(_HOST_PREFIX).partition('/')[2]}"


def own_path(path: str) -> str:
    """Return the path of a file that is on the host of this process; other paths as they are."""
    return path_of(path) if own_hosts and host_of(path) in own_hosts else path


@contextmanager
def reachable_hosts(call: HostCall) -> Iterator[None]:
    """Let files on hosts be read by a function that runs others there."""
    host_calls.append(call)
    try:
        yield
    finally:
        host_calls.remove(call)
