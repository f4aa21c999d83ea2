"""Redirects of web servers: followed on the same host, refused to others."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from opdiff.core.remote.retries import RemoteError
from opdiff.core.remote.store import Settings, Store

pytest.importorskip("aiohttp")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONTENT = b"content of a dump"


class _Server(ThreadingHTTPServer):
    paths: list[str]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        port = self.server.server_port
        targets = {"/near": f"http://127.0.0.1:{port}/file", "/far": f"http://localhost:{port}/file"}
        if self.path in targets:
            self.send_response(302)
            self.send_header("Location", targets[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(CONTENT)

    do_HEAD = do_GET  # noqa: N815  named by the library

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


@contextmanager
def _server() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.paths = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def _store(server: _Server) -> Store:
    return Store(f"http://127.0.0.1:{server.server_port}", Settings())


def test_a_redirect_on_the_same_host_is_followed() -> None:
    with _server() as server:
        store = _store(server)
        item = store.find(f"{store.origin}/near")
        assert item is not None
        assert item.nbytes == len(CONTENT)


@pytest.mark.parametrize("request_of", [Store.find, Store.items, Store.head])
def test_a_redirect_to_another_host_is_refused(request_of: Callable[[Store, str], object]) -> None:
    with _server() as server:
        store = _store(server)
        with pytest.raises(RemoteError, match=r"127.0.0.1 redirects to another host, localhost, which is not followed"):
            request_of(store, f"{store.origin}/far")
        assert set(server.paths) == {"/far"}
