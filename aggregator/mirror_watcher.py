"""Asks the mirror workers of this aggregate for their status, found by their ready files.

A worker that does not answer is left out of what is known; nothing of an earlier answer is kept,
because an old lag would look like a present one.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from aiohttp import ClientError, ClientSession, ClientTimeout

from .aggregate import Aggregate

REFRESH_SECONDS: Final = 2.0
ANSWER_SECONDS_MAX: Final = 2.0

logger = logging.getLogger(__name__)


class MirrorWatcher:
    """Keeps the workers' status in an `Aggregate` fresh; `run` until cancelled."""

    def __init__(self, aggregate: Aggregate, ready_files: Sequence[str]) -> None:
        self._aggregate = aggregate
        self._ready_files = [Path(each) for each in ready_files]

    async def run(self) -> None:
        if not self._ready_files:
            return
        async with ClientSession(timeout=ClientTimeout(total=ANSWER_SECONDS_MAX)) as session:
            while True:
                await self.step(session)
                await asyncio.sleep(REFRESH_SECONDS)

    async def step(self, session: ClientSession) -> None:
        """Ask every worker once."""
        answers = await asyncio.gather(*(_ask(session, path) for path in self._ready_files))
        self._aggregate.set_workers([each for each in answers if each is not None])


async def _ask(session: ClientSession, ready_file: Path) -> dict[str, Any] | None:
    """A worker's status; None where it does not run, or does not answer."""
    try:
        ready = json.loads(await asyncio.to_thread(ready_file.read_text))
        url = f"http://{ready['http_host']}:{ready['http_port']}/status"
        async with session.get(url) as answer:
            if answer.status != 200:
                return None
            status: dict[str, Any] = await answer.json()
            return status
    except (OSError, ValueError, KeyError, TimeoutError, ClientError) as error:
        logger.debug("%s: %r", ready_file, error)
        return None
