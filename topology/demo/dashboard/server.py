"""Serves the page on the loopback address while the demo runs. Shell.

GET /           the page, which asks for its content once a second
GET /fragment   its content
GET /data.json  the samples
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Final

from aiohttp import web

from topology.demo.dashboard.document import FRAGMENT_PATH, View, fragment, live_page

HOST: Final = "127.0.0.1"
SHUTDOWN_SECONDS: Final = 1.0
START_SECONDS_MAX: Final = 10.0
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self'"
    ),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


@contextlib.contextmanager
def serve_page(view: Callable[[], View]) -> Iterator[str]:
    """Serve what `view` returns, and yield the page's address. Raises OSError."""
    started: Future[str] = Future()
    ended = threading.Event()
    thread = threading.Thread(
        target=lambda: asyncio.run(_serve(view, started, ended)), name="demo-page", daemon=True
    )
    thread.start()
    try:
        yield started.result(START_SECONDS_MAX)
    finally:
        ended.set()
        thread.join()


async def _serve(view: Callable[[], View], started: Future[str], ended: threading.Event) -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text=live_page(view()), content_type="text/html", headers=HEADERS)

    async def content(_: web.Request) -> web.Response:
        return web.Response(text=fragment(view()), content_type="text/html", headers=HEADERS)

    async def data(_: web.Request) -> web.Response:
        now = view()
        return web.json_response(
            {
                "deployment": now.deployment,
                "stage": now.stage,
                "samples": [sample.as_json() for sample in now.samples],
            },
            headers=HEADERS,
        )

    app = web.Application()
    app.add_routes(
        [web.get("/", page), web.get(FRAGMENT_PATH, content), web.get("/data.json", data)]
    )
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    try:
        await runner.setup()
        site = web.TCPSite(runner, HOST, 0)
        await site.start()
        started.set_result(f"http://{HOST}:{runner.addresses[0][1]}/")
        await asyncio.to_thread(ended.wait)
    except OSError as error:
        started.set_exception(error)
    finally:
        await runner.cleanup()
