"""SHELL: reads changed znodes again, one reading at a time, until ZooKeeper answers.

Whoever keeps a read model of znodes marks the paths whose watches fired. A lost connection marks
everything. While ZooKeeper does not answer, marks are kept and reading is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from local_cluster.controller.zk.coordination import CoordinationUnavailable, SessionState

RETRY_DELAY_MS: Final = 100
EVERYTHING: Final = None
"""In place of a path: every path that is followed."""

log = logging.getLogger(__name__)

ReadChanged = Callable[[set[str | None]], Awaitable[None]]
"""Read the marked paths, with watches. Raises CoordinationUnavailable."""


class FollowedZnodes:
    """The marks of one read model, and the task that reads them."""

    def __init__(self, what: str, read: ReadChanged) -> None:
        """`what` names the read model in the log."""
        self._what = what
        self._read = read
        self._changed: set[str | None] = {EVERYTHING}
        self._due = asyncio.Event()
        self.lock = asyncio.Lock()
        """Held while reading, so that an older reading never replaces a newer one."""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read everything, and follow it. Waits until ZooKeeper answers."""
        while True:
            if await self._read_changed():
                break
            await asyncio.sleep(RETRY_DELAY_MS / 1000)
        self._task = asyncio.create_task(self._follow(), name=self._what)

    async def stop(self) -> None:
        """Follow no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def mark(self, path: str | None) -> None:
        """Note that a path may have changed, or EVERYTHING."""
        self._changed.add(path)
        self._due.set()

    def session_changed(self, state: SessionState) -> None:
        """Watches of a lost session are gone."""
        self._changed.add(EVERYTHING)
        if state is SessionState.CONNECTED:
            self._due.set()

    async def _follow(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            if not await self._read_changed():
                await asyncio.sleep(RETRY_DELAY_MS / 1000)
                self._due.set()

    async def _read_changed(self) -> bool:
        """Read what is marked. Return False if ZooKeeper did not answer; it stays marked then."""
        changed, self._changed = self._changed, set()
        try:
            async with self.lock:
                await self._read(changed)
        except CoordinationUnavailable as error:
            self._changed |= changed
            log.warning("cannot read the %s yet: %s", self._what, error)
            return False
        except Exception:
            # Outermost handler: if the task ended, no change would arrive any more.
            self._changed |= changed
            log.exception("cannot read the %s", self._what)
            return False
        return True
