"""Asks the mirror workers of this aggregate for their status, wherever they run.

The workers of a target are members of a group there, to share their work, and tell it where they
serve HTTP (`mirror_maker.formats.workers`). A worker that does not answer is left out of what
is known; nothing of an earlier answer is kept, because an old lag would look like a present one.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable
from typing import Any, Final

from aiohttp import ClientError, ClientSession, ClientTimeout

from aggregator.aggregate import Aggregate
from local_cluster.client.admin.group_members import DescribedMember, describe_members
from local_cluster.client.group import CoordinatorClient
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats.workers import worker_address, workers_group_id

FIND_SECONDS: Final = 5.0
"""Between looks at who the workers are: how late a new one is known."""
REFRESH_SECONDS: Final = 2.0
ANSWER_SECONDS_MAX: Final = 2.0

logger = logging.getLogger(__name__)


class MirrorWatcher:
    """Keeps the workers' status in an `Aggregate` fresh; `run` until cancelled."""

    def __init__(self, aggregate: Aggregate, client: CoordinatorClient) -> None:
        """`client` is the aggregate's, for nothing else: a coordinator may be away for long."""
        self._aggregate = aggregate
        self._client = client
        self._alias = aggregate.settings.aggregate
        self._machine = socket.gethostname()
        self._urls: frozenset[str] = frozenset()
        self._failure = ""

    async def run(self) -> None:
        async with (
            ClientSession(timeout=ClientTimeout(total=ANSWER_SECONDS_MAX)) as session,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(self._keep_finding())
            while True:
                await self.ask(session)
                await asyncio.sleep(REFRESH_SECONDS)

    async def _keep_finding(self) -> None:
        while True:
            await self.find()
            # The first worker is awaited by people who have just started it.
            await asyncio.sleep(FIND_SECONDS if self._urls else REFRESH_SECONDS)

    async def find(self) -> None:
        """Look who the workers are. While the group cannot tell, they are those of before."""
        try:
            members = await describe_members(self._client, workers_group_id(self._alias))
        except KafkaError as error:
            if self._failure != str(error):
                logger.warning("the mirror workers are not told: %s", error)
            self._failure = str(error)
            return
        self._failure = ""
        if members is not None:
            self._urls = frozenset(_urls(members, self._machine))

    async def ask(self, session: ClientSession) -> None:
        """Ask every worker once."""
        answers = await asyncio.gather(*(self._ask(session, url) for url in self._urls))
        self._aggregate.set_workers([each for each in answers if each is not None])

    async def _ask(self, session: ClientSession, url: str) -> dict[str, Any] | None:
        """A worker's status; None where it does not answer, or somebody else does."""
        try:
            async with session.get(f"{url}/status") as answer:
                status = await answer.json() if answer.status == 200 else None
        except (OSError, ValueError, TimeoutError, ClientError) as error:
            logger.debug("%s: %r", url, error)
            return None
        if not isinstance(status, dict) or status.get("target") != self._alias:
            return None
        return status


def _urls(members: Iterable[DescribedMember], here: str) -> Iterable[str]:
    for member in members:
        try:
            address = worker_address(member.metadata)
        except ValueError as error:
            logger.debug("member %s: %s", member.member_id, error)
            continue
        url = None if address is None else address.url(member.client_host, here)
        if url is not None:
            yield url
