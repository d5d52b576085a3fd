"""A consumer group of a simulated cluster: one consumer that commits growing offsets.

A read returns the last commit: no commit is lost, and none goes back, wherever the coordinator
moves to. A commit without a response may have happened or not. As in Kafka, a deposed coordinator
that has not noticed commits nothing, but may answer a read with an older offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.cluster.client import SimClient
from tests.sim.cluster.names import Anomaly, At
from tests.sim.cluster.sim_cluster import SimCluster

GROUP = "g"
VERSION = 7
OFFSETS = At(OFFSETS_TOPIC, 0)
READ_CHANCE = 0.3
"""Probability of a read after a commit."""


class SimGroup:
    """Commits 1, 2, 3... for one partition."""

    def __init__(self, cluster: SimCluster, at: At) -> None:
        self.stopping = False
        """Commit and read once more, then end."""
        self.committed = 0
        """The last acknowledged offset."""
        self.reads = 0
        self._at = at
        self._cluster = cluster
        self._client = SimClient(cluster)

    async def run(self) -> None:
        random = self._cluster.random
        while True:
            is_last = self.stopping
            await self._until_done(self._commit)
            self.committed += 1
            if is_last or random.random() < READ_CHANCE:
                await self._until_done(self._read)
                self.reads += 1
            if is_last:
                return
            await asyncio.sleep(random.expovariate(1 / 0.3))

    async def _until_done(self, attempt: Callable[[], Awaitable[ErrorCode]]) -> None:
        while not await self._is_done(attempt):
            await asyncio.sleep(0.1)

    async def _is_done(self, attempt: Callable[[], Awaitable[ErrorCode]]) -> bool:
        try:
            return bool(await attempt() == ErrorCode.none)
        except (KafkaError, TimeoutError):
            return False

    async def _commit(self) -> ErrorCode:
        position = {
            "partition_index": self._at.partition,
            "committed_offset": self.committed + 1,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        answer = await self._ask(
            ApiKey.OFFSET_COMMIT,
            {
                "group_id": GROUP,
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "group_instance_id": None,
                "topics": [{"name": self._at.topic, "partitions": [position]}],
            },
        )
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def _read(self) -> ErrorCode:
        answer = await self._ask(
            ApiKey.OFFSET_FETCH,
            {
                "group_id": GROUP,
                "topics": [{"name": self._at.topic, "partition_indexes": [self._at.partition]}],
                "require_stable": True,
            },
        )
        if answer.error_code:
            return ErrorCode(answer.error_code)
        (found,) = answer.topics[0].partitions
        state = self._cluster.state_in_zookeeper(OFFSETS)
        if state is None or state.leader != self._client.asked:
            # A deposed coordinator that has not noticed answers from its old state.
            return ErrorCode.not_coordinator
        if found.error_code == ErrorCode.none and found.committed_offset != self.committed:
            raise Anomaly(
                f"group {GROUP}: committed offset {self.committed}, read {found.committed_offset}"
            )
        return ErrorCode(found.error_code)

    async def _ask(self, api: ApiKey, fields: dict[str, Any]) -> Any:
        body = messages.encode_request(api, VERSION, fields)
        frame, position = await self._client.ask_leader(OFFSETS, api, VERSION, bytes(body))
        return messages.decode_response(api, VERSION, frame, position)
