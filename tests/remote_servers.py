"""An SSH server and an S3 server on the loopback address, and a proxy that disturbs connections to them."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SSHD = "/usr/sbin/sshd"
BUCKET = "dumps"
_CONFIG = """\
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/home/.ssh/id_ed25519.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
Subsystem sftp internal-sftp
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@dataclass(frozen=True)
class SshServer:
    """A running server, and a home directory whose keys it accepts."""

    port: int
    home: Path

    def url(self, path: Path, port: int | None = None, user: str = "") -> str:
        return f"sftp://{user}127.0.0.1:{port or self.port}{path}"

    def trust(self, port: int) -> None:
        """Add the key of the server, behind a port, to the known hosts."""
        key = (self.home.parent / "host_key.pub").read_text()
        with (self.home / ".ssh" / "known_hosts").open("a") as file:
            file.write(f"[127.0.0.1]:{port} {key}")


@contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """Start Debian's OpenSSH server; the test is skipped if it is not installed."""
    if not Path(SSHD).exists():
        pytest.skip("no OpenSSH server here: `apt-get install openssh-server`")
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True)
    for key in (folder / "host_key", home / ".ssh" / "id_ed25519"):
        subprocess.run(["/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    (folder / "config").write_text(_CONFIG.format(folder=folder))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    port = free_port()
    command = [SSHD, "-D", "-e", "-f", str(folder / "config"), "-p", str(port)]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stderr=log) as process:
        server = SshServer(port, home)
        server.trust(port)
        try:
            _wait_for(port)
            yield server
        finally:
            process.terminate()


@dataclass(frozen=True)
class S3Server:
    """A running server with one bucket."""

    port: int

    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "key-of-test",
            "AWS_SECRET_ACCESS_KEY": "secret-of-test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
        }

    def upload(self, folder: Path, prefix: str) -> str:
        """Copy a folder to the bucket and return its URL."""
        client = self._client()
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                client.upload_file(str(path), BUCKET, f"{prefix}/{path.relative_to(folder)}")
        return f"s3://{BUCKET}/{prefix}"

    def _client(self) -> Any:
        import boto3

        facts = self.environment()
        return boto3.client(
            "s3",
            endpoint_url=facts["AWS_ENDPOINT_URL"],
            aws_access_key_id=facts["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=facts["AWS_SECRET_ACCESS_KEY"],
            region_name=facts["AWS_DEFAULT_REGION"],
        )


@contextmanager
def s3_server() -> Iterator[S3Server]:
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        found = S3Server(server.get_host_and_port()[1])
        found._client().create_bucket(Bucket=BUCKET)
        yield found
    finally:
        server.stop()


class Proxy:
    """A TCP proxy that cuts and slows connections.

    Attributes:
        cuts: sizes after which answers of the next connections are cut, one connection each.
        limit: size after which answers of all other connections are cut.
        is_refusing: whether every connection is closed at once.
        delay_s: pause before each piece of an answer is passed on.
        connections: number of connections so far.
        nbytes: number of bytes that were passed on in both directions.
    """

    def __init__(self, port: int) -> None:
        self.cuts: list[int] = []
        self.limit: int | None = None
        self.is_refusing = False
        self.delay_s = 0.0
        self.connections = self.nbytes = 0
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for found in self._sockets:
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)
            found.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                if self.is_refusing:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._sockets += [client, server]
                limit = self.cuts.pop(0) if self.cuts else self.limit
                threading.Thread(target=self._pass, args=(client, server, None), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, limit), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, limit: int | None) -> None:
        passed = 0
        with suppress(OSError):
            while data := source.recv(1 << 16):
                time.sleep(self.delay_s if source.getpeername()[1] == self._server_port else 0.0)
                if limit is not None and passed + len(data) > limit:
                    target.sendall(data[: limit - passed])
                    break
                target.sendall(data)
                passed += len(data)
                self.nbytes += len(data)
        for found in (source, target):
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()


def _wait_for(port: int) -> None:
    for _ in range(100):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError("the server does not answer")
