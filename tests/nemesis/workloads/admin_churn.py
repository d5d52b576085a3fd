"""Topics created, written, deleted and re-created; partitions and configs that change."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import ClassVar, Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.nemesis.checkers.churn import Change, Incarnation, check_changes, check_incarnations
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.set_full import Outcome
from tests.nemesis.cluster import until
from tests.nemesis.workloads.workload import Workload, spread_topic
from tests.support.producing import produce_once

COMES_AND_GOES: Final = "churn"
STAYS: Final = "churn-stays"
PARTITIONS: Final = "partitions"
PARTITIONS_MAX: Final = 12
RETENTION: Final = "retention.ms"
TOPIC_RESOURCE: Final = 2
SET: Final = 0
REQUEST_MS_MAX: Final = 10_000
RECORDS: Final = 5
PAUSE_SECONDS: Final = 0.1
AGAIN_SECONDS_MAX: Final = 60.0


class AdminChurn(Workload):
    """One admin per topic, so that the last acknowledged change is what has to hold."""

    name: ClassVar = "admin-churn"
    title: ClassVar = "topics deleted and re-created, partitions added, configs changed"
    progress_wanted: ClassVar = 1
    must_check: ClassVar = ("incarnations", "changes", "replicas")

    @property
    def topics(self) -> Sequence[NewTopic]:
        return [spread_topic(STAYS, 1)]

    async def start(self) -> None:
        self._stop = asyncio.Event()
        self._number = 0
        """Of the topic's last life that was begun."""
        self._lives: list[Incarnation] = []
        self._changes: list[Change] = []
        self._tasks = [
            asyncio.create_task(self._come_and_go()),
            asyncio.create_task(self._change()),
        ]

    @property
    def gone_on(self) -> Sequence[int]:
        """Lives of the one topic, and changes to the other."""
        return [len(self._lives), self.progress]

    async def stop(self) -> None:
        """With one life more: now that all is healed, none of its steps may be refused for long."""
        self._stop.set()
        await asyncio.gather(*self._tasks)

        async def lived() -> bool:
            await self._live()
            return True

        await until(lived, f"{COMES_AND_GOES} is deleted, re-created, written and read")

    async def check(self) -> Findings:
        findings = check_incarnations(COMES_AND_GOES, self._lives)
        told: list[dict[str, str]] = []

        async def agree() -> bool:
            told[:] = [await self._in_the_end(node) for node in self.cluster.nodes]
            return all(each == told[0] for each in told)

        try:
            await until(agree, "brokers agree")
        except TimeoutError:
            findings.add("brokers-disagree", str(told))
        for each in told:
            findings.merge(check_changes(self._changes, each))
        return findings

    # -- a topic that comes and goes ----------------------------------------------------------

    async def _come_and_go(self) -> None:
        while not self._stop.is_set():
            try:
                async with asyncio.timeout(AGAIN_SECONDS_MAX):
                    await self._live()
            except (KafkaError, TimeoutError):
                # This life is not judged: how far it came is unknown.
                await asyncio.sleep(PAUSE_SECONDS)

    async def _live(self) -> None:
        """Delete what is there, create, write, read."""
        self._number += 1
        number = self._number
        async with KafkaClient(self.cluster.bootstrap, request_timeout_ms=REQUEST_MS_MAX) as client:
            while True:
                gone = (await client.delete_topics([COMES_AND_GOES]))[COMES_AND_GOES]
                if gone is not None and gone.code is not ErrorCode.unknown_topic_or_partition:
                    raise gone
                new = spread_topic(COMES_AND_GOES, 1)
                error = (await client.create_topics([new]))[COMES_AND_GOES]
                if error is None:
                    break
                if error.code is not ErrorCode.topic_already_exists:
                    raise error
                # The deletion is not over yet, or the creation was repeated after a lost answer.
                await asyncio.sleep(PAUSE_SECONDS)
            at = TopicPartition(COMES_AND_GOES, 0)
            topic_id = await self._served(client)
            acknowledged: list[str] = []
            for record in range(RECORDS):
                value = f"{number}:{record}"
                if await self._write(client, at, value):
                    acknowledged.append(value)
            read = [(r.value or b"").decode() async for r in read_topic(client, at.topic)]
            self._lives.append(Incarnation(number, topic_id, acknowledged, read))

    async def _served(self, client: KafkaClient) -> str:
        """The id of the topic, once every broker tells the same new one."""
        before = {life.topic_id for life in self._lives}
        while True:
            ids = set()
            for node in self.cluster.nodes:
                with contextlib.suppress(KafkaError):
                    ids.add(await self._id_at(client, node))
            if len(ids) == 1 and not ids & {"", *before}:
                return ids.pop()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _id_at(self, client: KafkaClient, node: int) -> str:
        """As one broker tells it; "" where it knows no such topic or no leader."""
        fields = {
            "topics": [{"name": COMES_AND_GOES, "topic_id": None}],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        }
        answer = await client.call(ApiKey.METADATA, fields, node_id=node)
        (topic,) = answer.topics
        has_leader = all(each.leader_id >= 0 for each in topic.partitions)
        is_there = topic.error_code is ErrorCode.none and bool(topic.partitions)
        return str(topic.topic_id) if is_there and has_leader else ""

    async def _write(self, client: KafkaClient, at: TopicPartition, value: str) -> bool:
        """Whether it was acknowledged."""
        leader = (await client.metadata([at.topic])).topics[at.topic].partitions[0].leader
        records = encode_batch([NewRecord(int(time.time() * 1000), b"k", value.encode())])
        answer = await produce_once(client, leader, at, records, timeout_ms=REQUEST_MS_MAX)
        return answer.error is ErrorCode.none

    # -- a topic that stays --------------------------------------------------------------------

    async def _change(self) -> None:
        count, retention = 1, 1_000_000
        while not self._stop.is_set():
            await asyncio.sleep(PAUSE_SECONDS * 5)
            retention += 1
            await self._noted(RETENTION, str(retention), self._set_retention(retention))
            if count < PARTITIONS_MAX and self.random.random() < 0.3:
                count += 1
                await self._noted(PARTITIONS, str(count), self._set_partitions(count))

    async def _noted(self, what: str, value: str, doing: object) -> None:
        outcome = Outcome.UNKNOWN
        with contextlib.suppress(KafkaError):
            outcome = await doing  # type: ignore[misc]
        self._changes.append(Change(what, value, outcome))
        self.progress += outcome is Outcome.ACKNOWLEDGED

    async def _set_partitions(self, count: int) -> Outcome:
        async with KafkaClient(self.cluster.bootstrap, request_timeout_ms=REQUEST_MS_MAX) as client:
            error = (await client.create_partitions({STAYS: count}))[STAYS]
        return Outcome.ACKNOWLEDGED if error is None else Outcome.UNKNOWN

    async def _set_retention(self, milliseconds: int) -> Outcome:
        config = {"name": RETENTION, "config_operation": SET, "value": str(milliseconds)}
        fields = {
            "resources": [
                {"resource_type": TOPIC_RESOURCE, "resource_name": STAYS, "configs": [config]}
            ],
            "validate_only": False,
        }
        async with KafkaClient(self.cluster.bootstrap, request_timeout_ms=REQUEST_MS_MAX) as client:
            answer = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, fields)
        done = ErrorCode(answer.responses[0].error_code) is ErrorCode.none
        return Outcome.ACKNOWLEDGED if done else Outcome.UNKNOWN

    async def _in_the_end(self, node: int) -> dict[str, str]:
        """What one broker says of the topic that stays."""
        async with KafkaClient(self.cluster.bootstrap, request_timeout_ms=REQUEST_MS_MAX) as client:
            fields = {
                "topics": [{"name": STAYS, "topic_id": None}],
                "allow_auto_topic_creation": False,
                "include_topic_authorized_operations": False,
            }
            described = await client.call(ApiKey.METADATA, fields, node_id=node)
            asked = {
                "resources": [
                    {
                        "resource_type": TOPIC_RESOURCE,
                        "resource_name": STAYS,
                        "configuration_keys": [RETENTION],
                    }
                ]
            }
            configs = await client.call(ApiKey.DESCRIBE_CONFIGS, asked, node_id=node)
            (result,) = configs.results
            (topic,) = described.topics
            return {PARTITIONS: str(len(topic.partitions)), RETENTION: str(result.configs[0].value)}
