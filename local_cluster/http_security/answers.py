"""SHELL: refusals and failures of an HTTP port, as one JSON document; and its server's log.

    {"error": "<kind>", "message": "...", "parameter": null, "did_you_mean": null}

Not here: bytes that are no HTTP, and a header `Expect` of no use. aiohttp refuses them with plain
text, before any handler.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.typedefs import Handler

log = logging.getLogger(__name__)


@web.middleware
async def answer_in_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn the errors of handlers, and of paths and methods, into JSON. Outermost middleware."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        allow = error.headers.get("Allow")
        return refusal(error.status, error.text or error.reason, allow)
    except web.RequestPayloadError as error:
        return refusal(HTTPStatus.BAD_REQUEST, f"the body is not readable: {error}")
    except Exception:
        if request.writer.output_size:
            raise  # a part of the response is sent, so no other one can be
        log.exception("%s %s failed", request.method, request.path)
        return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "this request failed; see the log")


def refusal(status: int, message: str, allow: str | None = None) -> web.Response:
    """Return an error as a JSON document."""
    return web.json_response(
        {
            "error": HTTPStatus(status).phrase.lower().replace(" ", "_"),
            "message": message,
            "parameter": None,
            "did_you_mean": None,
        },
        status=status,
        headers=None if allow is None else {"Allow": allow},
    )


class _WithoutRequests(logging.Filter):
    """Leaves the bytes of requests out of the log: a line that is no HTTP may hold a token."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            record.levelno, record.levelname = logging.INFO, "INFO"
            record.msg, record.args = "bytes that are no HTTP were refused", ()
            record.exc_info = record.exc_text = None
        return True


server_log: Final = logging.getLogger("local_cluster.http_server")
"""The log of an HTTP server, for `AppRunner`."""
server_log.addFilter(_WithoutRequests())
