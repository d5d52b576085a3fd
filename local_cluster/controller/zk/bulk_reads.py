"""Many calls to ZooKeeper at once, with a limit; many znodes in one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from local_cluster.controller.zk.coordination import READ_MANY_MAX, Coordination, Znode

CALLS_IN_FLIGHT_MAX: Final = 512

Key = TypeVar("Key")
Value = TypeVar("Value")


async def gather_bounded(
    keys: Iterable[Key], call: Callable[[Key], Awaitable[Value]]
) -> list[tuple[Key, Value]]:
    """Return (key, result) of every call, CALLS_IN_FLIGHT_MAX calls at a time."""
    results: list[tuple[Key, Value]] = []
    waiting = list(keys)
    for start in range(0, len(waiting), CALLS_IN_FLIGHT_MAX):
        part = waiting[start : start + CALLS_IN_FLIGHT_MAX]
        results += zip(part, await asyncio.gather(*map(call, part)), strict=True)
    return results


async def read_by_key(
    coordination: Coordination, paths: Mapping[Key, str]
) -> dict[Key, Znode | None]:
    """Read one znode per key, READ_MANY_MAX to a request; None for a missing one."""
    keys = list(paths)
    parts = [
        tuple(keys[start : start + READ_MANY_MAX]) for start in range(0, len(keys), READ_MANY_MAX)
    ]

    async def read(part: tuple[Key, ...]) -> list[Znode | None]:
        return await coordination.read_many([paths[key] for key in part])

    return {
        key: znode
        for part, found in await gather_bounded(parts, read)
        for key, znode in zip(part, found, strict=True)
    }
