"""URLs of remote files, and the passwords in them, which are never part of a path."""

from __future__ import annotations

import re

from opdiff.core.errors import UsageError
from opdiff.core.reasons import because

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*://"
# User and password.
_LOGIN = r"([A-Za-z][A-Za-z0-9+.-]*://)([^/@:\s]*):([^/\s]*)@([^/@\s,]*)"
# A password with a slash: the part before the slash looks like a host with a port that is not a number.
_SPLIT_LOGIN = r"[A-Za-z][A-Za-z0-9+.-]*://[^/@:\s]*:(?![0-9]*(?:/|$))[^/\s]*/\S*@"
# Parameters that grant access, such as those of signed URLs.
_QUERY = r"(https?://[^?#\s]*)\?(\S*)"

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
