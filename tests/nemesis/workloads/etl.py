"""Five groups in a chain: consume, transform, produce in transactions; members come and go, and are
stopped by SIGSTOP for longer than their session. In two of the groups members change between the
classic and the consumer protocol."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.nemesis.checkers.copies import check_copy, check_positions
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.ownership import Partition, check_ownership, owned
from tests.nemesis.checkers.set_full import check_set
from tests.nemesis.cluster import Cluster, until
from tests.nemesis.workloads import etl_member
from tests.nemesis.workloads.etl_member import STRATEGIES, group_of, member_of, topic_of
from tests.nemesis.workloads.member_process import MemberProcess
from tests.nemesis.workloads.numbered import NumberedProducer
from tests.nemesis.workloads.reading import read_all
from tests.nemesis.workloads.set_full import found_numbers
from tests.nemesis.workloads.workload import Workload, end_all, end_watcher, spread_topic
from tests.nemesis.workloads.zombies import Zombies

SOURCE: Final = topic_of(0)
LEVELS: Final = range(1, len(STRATEGIES) + 1)
PARTITIONS: Final = 3
MEMBERS: Final = 2
RECORDS_PER_SECOND: Final = 30
SETTLE_SECONDS_MAX: Final = 180.0
STABLE: Final = "Stable"
"""The state of a group whose members know what they own, by its name in DescribeGroups."""
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


class Etl(Workload):
    """Level n reads etl-(n-1) and writes etl-n; each record keeps its partition."""

    name: ClassVar = "etl"
    title: ClassVar = "consume, transform, produce: five groups in a chain"
    must_check: ClassVar = (
        "acknowledged",
        "read",
        "copied",
        "positions",
        "assignments",
        "stopped",
        "came-back",
        "migrated",
        "upgraded",
        "downgraded",
        "replicas",
    )

    def __init__(self, cluster: Cluster, directory: Path, seed: int) -> None:
        super().__init__(cluster, directory, seed)
        self._copied: Counter[int] = Counter()
        """By level."""
        self._told: Counter[str] = Counter()
        """What all members have counted: `etl_member`."""
        self._members: list[MemberProcess] = []
        self._zombies = Zombies(
            self._members, random.Random(self.random.random()), lambda: self.is_measured
        )

    @property
    def topics(self) -> Sequence[NewTopic]:
        return [spread_topic(topic_of(level), PARTITIONS) for level in (0, *LEVELS)]

    @property
    def gone_on(self) -> Sequence[int]:
        """Each level by itself: one that does nothing is not made good by those before it."""
        return [self._copied[level] for level in LEVELS]

    async def start(self) -> None:
        self._source = NumberedProducer(
            self.cluster.bootstrap, "source", SOURCE, PARTITIONS, per_second=RECORDS_PER_SECOND
        )
        self._source.start()
        self._members += [
            self._member(level, number) for level in LEVELS for number in range(MEMBERS)
        ]
        await asyncio.gather(*(member.start() for member in self._members))
        self._positions: dict[tuple[str, int], list[int]] = {}
        self._owners: dict[str, list[dict[str, list[Partition]]]] = {}
        """By group, every answer that was of a stable one: member -> its partitions."""
        self._protocols: dict[str, str] = {}
        """By group, the one that it was seen with last; all of them begin as classic groups."""
        self._watching = asyncio.create_task(self._watch())
        self._zombies.start()

    async def stop(self) -> None:
        try:
            try:
                async with asyncio.timeout(SETTLE_SECONDS_MAX):
                    await self._zombies.finish()
                # While there is still something to do for those who come back.
                await self._until_back()
            finally:
                await self._source.end()
                await self._until_copied()
        finally:
            await end_all(self._members)
            await end_watcher(self._watching)

    async def close(self) -> None:
        await self._zombies.close()
        await asyncio.gather(*(member.kill() for member in self._members))

    async def check(self) -> Findings:
        levels = {topic_of(level): PARTITIONS for level in (0, *LEVELS)}
        read = await read_all(self.cluster.bootstrap, levels, committed=True)
        source = {at: messages for at, messages in read.items() if at[0] == SOURCE}
        findings = check_set(self._source.writes, found_numbers(source))
        original = {at[1]: [m.value or "" for m in messages] for at, messages in source.items()}
        for topic in levels:
            if topic != SOURCE:
                copy = {p: [m.value or "" for m in read[topic, p]] for p in range(PARTITIONS)}
                findings.merge(check_copy(topic, original, copy))
        for (group, partition), positions in self._positions.items():
            findings.merge(check_positions(f"{group}/{partition}", positions))
        for group, answers in self._owners.items():
            findings.merge(check_ownership(group, answers))
        findings.allowed["hung"] += self._told["hung"]
        findings.checked["stopped"] += self._zombies.stopped
        findings.checked["fenced"] += self._told["fenced"]
        findings.checked["came-back"] += self._told["back"]
        for change in ("migrated", "upgraded", "downgraded"):
            findings.checked[change] += self._told[change]
        return findings

    def _member(self, level: int, number: int) -> MemberProcess:
        name = member_of(level, number)
        seed = self.random.randrange(1 << 32)
        return MemberProcess(
            name,
            (
                *(etl_member.__name__, self.cluster.bootstrap),
                *(str(level), str(number), str(seed)),
            ),
            self.directory / f"{name}.log",
            partial(self._hear, level),
        )

    def _hear(self, level: int, counts: Mapping[str, int]) -> None:
        self._told.update(counts)
        self._copied[level] += counts.get("copied", 0)

    def _away(self) -> list[str]:
        return [member.name for member in self._members if not member.is_back]

    async def _until_back(self) -> None:
        """Wait until all stopped members continue. Raises TimeoutError."""
        try:
            await until(lambda: not self._away(), "all are back", SETTLE_SECONDS_MAX)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; still away: {self._away()}") from None

    async def _until_copied(self) -> None:
        """Wait until the last level has as many records as the first. Raises TimeoutError."""
        last = topic_of(LEVELS[-1])
        async with asyncio.timeout(SETTLE_SECONDS_MAX):
            while True:
                read = await read_all(
                    self.cluster.bootstrap, {SOURCE: PARTITIONS, last: PARTITIONS}, committed=True
                )
                count = {SOURCE: 0, last: 0}
                for (topic, _), messages in read.items():
                    count[topic] += len(messages)
                if count[last] >= count[SOURCE]:
                    return
                await asyncio.sleep(1.0)

    async def _watch(self) -> None:
        """What is committed for each group, and who owns what, again and again."""
        while True:
            for level in LEVELS:
                group = group_of(level)
                with contextlib.suppress(KafkaError):
                    async with KafkaClient(
                        self.cluster.bootstrap, request_timeout_ms=5_000
                    ) as client:
                        await self._look_at_positions(client, group, topic_of(level - 1))
                        await self._look_at_owners(client, group)
            await asyncio.sleep(0.5)

    async def _look_at_positions(self, client: KafkaClient, group: str, topic: str) -> None:
        fields = {
            "group_id": group,
            "topics": [{"name": topic, "partition_indexes": tuple(range(PARTITIONS))}],
            "require_stable": True,
        }
        answer = await client.call_coordinator(group, ApiKey.OFFSET_FETCH, fields, version_max=7)
        for entry in answer.topics[0].partitions:
            if entry.error_code is ErrorCode.none:
                at = group, int(entry.partition_index)
                self._positions.setdefault(at, []).append(int(entry.committed_offset))

    async def _look_at_owners(self, client: KafkaClient, group: str) -> None:
        """As its coordinator has it; a classic group that is not stable has no owners yet."""
        fields = {"groups": [group], "include_authorized_operations": False}
        answer = await client.call_coordinator(group, ApiKey.DESCRIBE_GROUPS, fields, version_max=6)
        (described,) = answer.groups
        if described.error_code is ErrorCode.none and described.group_state == STABLE:
            members = {each.member_id: owned(each.member_assignment) for each in described.members}
            self._note(group, CLASSIC, members)
        elif described.error_code is ErrorCode.group_id_not_found:
            await self._look_at_consumer_group(client, group)

    async def _look_at_consumer_group(self, client: KafkaClient, group: str) -> None:
        """A group of the consumer protocol: nobody holds what another one holds, in any state."""
        fields = {"group_ids": [group], "include_authorized_operations": False}
        answer = await client.call_coordinator(
            group, ApiKey.CONSUMER_GROUP_DESCRIBE, fields, version_max=1
        )
        (described,) = answer.groups
        if described.error_code is ErrorCode.none:
            members = {
                member.member_id: [
                    (str(topic.topic_name), int(index))
                    for topic in member.assignment.topic_partitions
                    for index in topic.partitions
                ]
                for member in described.members
            }
            self._note(group, CONSUMER, members)

    def _note(self, group: str, protocol: str, members: dict[str, list[Partition]]) -> None:
        """Keep what was seen of a group, and count how often its protocol has changed."""
        self._owners.setdefault(group, []).append(members)
        if members:
            former, self._protocols[group] = self._protocols.get(group, CLASSIC), protocol
            if former != protocol:
                self._told["upgraded" if protocol == CONSUMER else "downgraded"] += 1
