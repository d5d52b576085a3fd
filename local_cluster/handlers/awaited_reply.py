"""Hand the result of a handler's coroutine to callbacks, as Deferred does without one.

Apart from the connection, which is compiled: a compiled module has no coroutines.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


async def settle(
    reply: Awaitable[Any], finish: Callable[[Any], None], fail: Callable[[Exception], None]
) -> None:
    """Wait for a reply, and call one of both. An error of `finish` is a failure as well."""
    try:
        finish(await reply)
    except Exception as error:  # noqa: BLE001 - the broker continues
        fail(error)
