"""A small schema registry: the requests of Confluent's that a decoder makes, over real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class SchemaRegistry:
    """A registry that runs."""

    url: str = ""
    asked: list[str] = field(default_factory=list)
    """Paths of the requests, with their queries."""
    refuses_with: int | None = None
    """HTTP status of every answer, if it is to refuse."""


@contextlib.contextmanager
def running_registry(
    schemas: Mapping[int, Mapping[str, Any]],
    subjects: Mapping[str, int] | None = None,
) -> Iterator[SchemaRegistry]:
    """Serve schemas by id, and the latest one of each subject, until the block ends."""
    registry, started, stopping = SchemaRegistry(), threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def answer(request: web.Request) -> web.Response:
        registry.asked.append(request.path_qs)
        if registry.refuses_with is not None:
            return web.json_response({"message": "refused"}, status=registry.refuses_with)
        subject = request.match_info.get("subject")
        schema_id = (
            int(request.match_info["id"]) if subject is None else (subjects or {}).get(subject)
        )
        found = None if schema_id is None else schemas.get(schema_id)
        if found is None:
            code = 40403 if subject is None else 40401
            return web.json_response({"error_code": code, "message": "not found"}, status=404)
        named = {} if subject is None else {"subject": subject, "version": 1, "id": schema_id}
        return web.json_response({**found, **named})

    async def serve() -> None:
        app = web.Application()
        app.router.add_get("/schemas/ids/{id}", answer)
        app.router.add_get("/subjects/{subject}/versions/{version}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        registry.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        started.set()
        await stopping.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        started.wait()
        yield registry
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()
        loop.close()
