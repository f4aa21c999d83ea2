"""Files of a host by SFTP, with users, keys and proxies from the configuration of ssh.

The SFTP file system of fsspec trusts every host, does not read that configuration, and waits for every 32 KiB.
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import paramiko

from opdiff.core.remote.listing import facts_of
from opdiff.core.remote.urls import password_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TIMEOUT_S = 30.0
# The server answers each request with at most 32 KiB.
_MIN_PIPELINED_NBYTES = 1 << 15
_CONFIG = "~/.ssh/config"


class UnknownHostKey(paramiko.SSHException):  # type: ignore[misc]  # paramiko has no type annotations
    """A server whose key is not in the known hosts."""


class _KnownHostsOnly(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]  # paramiko has no type annotations
    def missing_host_key(self, _client: object, hostname: str, _key: object) -> None:
        raise UnknownHostKey(
            f"the key of {hostname} is not in ~/.ssh/known_hosts; connect once by `ssh`, which asks about it"
        )


class SftpFiles:
    """Files of one host; the methods are those of fsspec."""

    def __init__(self, origin: str) -> None:
        parts = urlsplit(origin)
        if not parts.hostname:
            raise ValueError("the host is missing")
        config = _host_config(parts.hostname)
        self._client = paramiko.SSHClient()
        self._client.load_system_host_keys()
        for path in map(os.path.expanduser, str(config.get("userknownhostsfile", "")).split()):
            if os.path.isfile(path):
                self._client.load_system_host_keys(path)
        checks = config.get("stricthostkeychecking", "yes") not in {"no", "off", "accept-new"}
        self._client.set_missing_host_key_policy(_KnownHostsOnly() if checks else paramiko.AutoAddPolicy())
        given = {"port": parts.port, "user": unquote(parts.username or ""), "password": password_of(origin)}
        self._client.connect(**_connection(parts.hostname, config, given))
        self._sftp = self._client.open_sftp()
        self._sftp.get_channel().settimeout(_TIMEOUT_S)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def ls(self, path: str, *, detail: bool) -> list[Mapping[str, object]]:
        """Return name, type and size of the items of a folder; there is no other form than the detailed one."""
        del detail
        prefix = path.rstrip("/")
        return [_facts(f"{prefix}/{found.filename}", found) for found in self._sftp.listdir_attr(path)]

    def info(self, path: str) -> Mapping[str, object]:
        """Return name, type and size of a file or folder; links are followed."""
        return _facts(path, self._sftp.stat(path))

    def cat_file(self, path: str, *, start: int, end: int) -> bytes:
        """Return a range of a file; fewer bytes if it ends before. Long ranges are requested all at once."""
        with self._sftp.open(path, "rb") as file:
            if end - start > _MIN_PIPELINED_NBYTES:
                file._prefetch_thread = partial(_ignoring_errors, file._prefetch_thread)  # noqa: SLF001  has no setting
                return b"".join(file.readv([(start, end - start)]))
            file.seek(start)
            return bytes(file.read(end - start))

    def real_path(self, path: str) -> str:
        """Return a path without links."""
        return str(self._sftp.normalize(path))


def sftp_path(url: str) -> str:
    """Return the path of a URL on its host."""
    return "/" + url.partition("://")[2].partition("/")[2]


def _ignoring_errors(send: Callable[..., None], *arguments: object) -> None:
    """Send requests in a thread of paramiko; if the connection is cut, waiting for the answers fails, too."""
    with suppress(paramiko.SSHException, OSError, EOFError):
        send(*arguments)


def _facts(path: str, attributes: paramiko.SFTPAttributes) -> Mapping[str, object]:
    return facts_of(path, attributes.st_mode or 0, attributes.st_size, attributes.st_mtime)


def _host_config(host: str) -> Mapping[str, object]:
    path = os.path.expanduser(_CONFIG)
    if not os.path.isfile(path):
        return {}
    found: Mapping[str, object] = paramiko.SSHConfig.from_path(path).lookup(host)
    return found


def _connection(host: str, config: Mapping[str, object], given: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments of `SSHClient.connect`; those of the URL come before those of the configuration."""
    name, port = str(config.get("hostname", host)), int(str(given["port"] or config.get("port", 22)))
    keys = config.get("identityfile", ())
    found: dict[str, object] = {
        "hostname": name,
        "port": port,
        "username": given["user"] or config.get("user"),
        "password": given["password"],
        "timeout": _TIMEOUT_S,
        "banner_timeout": _TIMEOUT_S,
        "auth_timeout": _TIMEOUT_S,
        "key_filename": [path for path in keys if os.path.isfile(path)] if isinstance(keys, list) else None,
    }
    command = str(config.get("proxycommand", "none"))
    if config.get("proxyjump", "none") != "none":
        command = shlex.join(["ssh", "-W", f"{name}:{port}", str(config["proxyjump"])])
    if command != "none":
        found["sock"] = paramiko.ProxyCommand(command)
    return found
