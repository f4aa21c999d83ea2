"""Redirects of web servers, which are followed on the same host only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import TraceConfig
from yarl import URL

from opdiff.core.remote.retries import RedirectError

if TYPE_CHECKING:
    from aiohttp import ClientSession, TraceRequestRedirectParams


def refuse_other_hosts() -> TraceConfig:
    """Return a setting of aiohttp that ends requests which a server sends to another host."""
    config = TraceConfig()
    config.on_request_redirect.append(_require_same_host)
    return config


async def _require_same_host(_session: ClientSession, _context: object, redirect: TraceRequestRedirectParams) -> None:
    headers = redirect.response.headers
    target = redirect.url.join(URL(headers.get("Location") or headers.get("URI") or ""))
    if target.host != redirect.url.host:
        problem = f"{redirect.url.host} redirects to another host, {target.host}, which is not followed"
        raise RedirectError(None, problem)
