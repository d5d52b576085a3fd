"""Errors of an HTTP port as JSON, and what its server's log leaves out."""

from __future__ import annotations

import logging

import pytest
from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.test_utils import TestClient, TestServer

from local_cluster.http_security.answers import answer_in_json, server_log
from local_cluster.http_security.guard import HttpGuard
from local_cluster.http_security.settings import OPEN


async def broken(_: web.Request) -> web.Response:
    raise RuntimeError("a defect")


async def body(request: web.Request) -> web.Response:
    await request.read()
    return web.json_response({})


async def test_every_error_is_a_document(caplog: pytest.LogCaptureFixture) -> None:
    app = web.Application(
        middlewares=[answer_in_json, *HttpGuard(OPEN).middlewares], client_max_size=99
    )
    app.add_routes([web.get("/broken", broken), web.post("/body", body)])
    async with TestClient(TestServer(app)) as client:
        for method, path, status, kind in (
            ("GET", "/nowhere", 404, "not_found"),
            ("PUT", "/body", 405, "method_not_allowed"),
            ("GET", "/broken", 500, "internal_server_error"),
        ):
            async with client.request(method, path) as response:
                document = await response.json()
                assert (response.status, document["error"]) == (status, kind)
                assert isinstance(document["message"], str)
                assert "defect" not in document["message"]
        async with client.post("/body", data=b"x" * 100) as response:
            assert (response.status, response.content_type) == (413, "application/json")
        headers = {"Content-Encoding": "gzip"}
        async with client.post("/body", data=b"this is no gzip", headers=headers) as response:
            assert (response.status, (await response.json())["error"]) == (400, "bad_request")
    assert "a defect" in caplog.text, "the log has the cause"


def test_bytes_that_are_no_http_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        try:
            raise HttpProcessingError(message="bad header b'Authorization: Bearer token'")
        except HttpProcessingError:
            server_log.exception("Error handling request from %s", "10.0.0.1")
    assert "refused" in caplog.text
    assert "token" not in caplog.text
