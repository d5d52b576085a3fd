"""Requests to a simulated broker, dispatched to the real handlers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import local_cluster.handlers.all
from local_cluster.handlers.deferred import ThrottledBody
from local_cluster.handlers.registry import find_handler
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.log.partition.partition_log import LogSlice
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError

assert local_cluster.handlers.all, "importing it registers every handler"

LISTENER = "PLAINTEXT"
"""The only listener of every broker."""

Body = bytes | Sequence[bytes | LogSlice]
"""The body of a response. Slices of a log are read when they are sent, as in server/outbox.py: the
file may have changed by then."""


def rendered(body: Body) -> bytes | None:
    """Return the bytes of a response, None if a file is shorter than its slice."""
    if isinstance(body, bytes):
        return body
    parts = [part.read() if isinstance(part, LogSlice) else part for part in body]
    if any(
        isinstance(part, LogSlice) and len(found) < part.size_bytes
        for part, found in zip(body, parts, strict=True)
    ):
        return None
    return b"".join(parts)


def dispatch(
    broker: BrokerServices,
    failed: Callable[[BaseException], None],
    connection: str,
    api: int,
    version: int,
    body: bytes,
    future: asyncio.Future[Body],
) -> None:
    """Dispatch a request now; the future gets the response body. As server/connection.py does.

    `failed` gets an exception that a handler may not raise.
    """
    handler = find_handler(api)
    assert handler is not None
    host, _, number = connection.partition("#")
    context = RequestContext(api, version, 0, host, "User:ANONYMOUS", LISTENER, host, int(number))
    raw = memoryview(bytearray(body))
    try:
        request = raw if handler.raw else messages.decode_request(api, version, raw, 0)
        reply = handler.function(broker, context, request)
    except (KafkaError, PeerError) as error:
        future.set_exception(KafkaError(ErrorCode.network_exception, str(error)))
        return
    if inspect.isawaitable(reply):
        asyncio.get_running_loop().create_task(_answer(failed, api, version, reply, future))
    else:
        future.set_result(_encoded(api, version, reply))


async def _answer(
    failed: Callable[[BaseException], None],
    api: int,
    version: int,
    reply: Any,
    future: asyncio.Future[Body],
) -> None:
    try:
        answer = await reply
        encoded = _encoded(api, version, answer)
    except KafkaError as error:
        if not future.done():
            future.set_exception(error)
        return
    except Exception as error:  # noqa: BLE001 - a handler may raise nothing else
        failed(error)
        return
    if not future.done():
        future.set_result(encoded)


def _encoded(api: int, version: int, reply: Any) -> Body:
    assert not isinstance(reply, ThrottledBody), "no quota is set"
    if isinstance(reply, bytes | list):
        return reply
    return messages.encode_response(ApiKey(api), version, reply)
