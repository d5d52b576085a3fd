"""One member of a simulated group: a process with requests, partitions and positions.

What it speaks is a `Speaker` (classic.py, consumer.py). It processes records that nobody wrote: a
position is a number that grows while the member owns the partition. As a careful application does,
it commits before it gives a partition up.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Collection
from typing import Any, Final, NamedTuple, Protocol

from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC
from local_cluster.coordinator_runtime.partition_runtime import GRACE_MS
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.broker.sim_process import HOME, SimProcess
from tests.sim.cluster.client import SimClient
from tests.sim.cluster.names import Anomaly, At
from tests.sim.cluster.sim_cluster import SESSION_SECONDS, SimCluster
from tests.sim.members.judge import GroupJudge, Owner

TOPIC: Final = "shared"
PARTITIONS: Final = frozenset(range(5))
REBALANCE_SECONDS: Final = 6.0
"""Longer than a session: who is too slow to rebalance has no session either."""
HEARTBEAT_SECONDS: Final = 0.3
BACKOFF_SECONDS: Final = 0.1
REVOKE_SECONDS_MAX: Final = 0.3
"""How long a member needs to give partitions up."""
COMMIT_CHANCE: Final = 0.4
"""Probability of a commit between two heartbeats."""
OFFSETS: Final = At(OFFSETS_TOPIC, 0)
COMMIT_VERSION: Final = 9
FETCH_VERSION: Final = 9
GRACE_SECONDS: Final = GRACE_MS / 1000
"""Right after an outage of its replicas, a coordinator lets no member time out."""
JOIN_ANSWER_SECONDS_MAX: Final = GRACE_SECONDS + REBALANCE_SECONDS + 2.0
"""A rebalance waits for members that have crashed."""


class MemberEndsError(Exception):
    """The coordinator refused the member for good, as its client library would report."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class Answer(NamedTuple):
    """A response; `is_leaders`: of the coordinator in charge by ZooKeeper, all the time."""

    body: Any
    sent_at: float
    is_leaders: bool


class Speaker(Protocol):
    """A group protocol. Methods raise KafkaError and TimeoutError of lost requests."""

    member_id: str
    epoch: int
    """Member epoch, or generation; for commits."""
    reads_with_its_epoch: bool
    """Whether OffsetFetch has the member id and the epoch."""

    @property
    def is_settled(self) -> bool:
        """Whether the member has nothing to do, as far as it was told."""

    async def beat(self) -> None:
        """Do one step: join, or send a heartbeat. Raises MemberEndsError."""

    async def leave(self) -> None:
        """Leave the group as a client does that closes."""


class SimMember:
    """One process; `speaker` is set before `start`."""

    speaker: Speaker

    def __init__(
        self, cluster: SimCluster, judge: GroupJudge, name: str, instance_id: str | None
    ) -> None:
        self.cluster = cluster
        self.group = judge.group
        self.name = name
        self.instance_id = instance_id
        self.process = SimProcess()
        self.process.is_alive = True
        self.stopping = False
        """Leave and end."""
        self.ended_with: ErrorCode | None = None
        """The error that ended it."""
        self.running: asyncio.Task[None] | None = None
        self._judge = judge
        self._owner: Owner = judge.add(name, instance_id)
        self._client = SimClient(cluster, host=name)
        self._positions: dict[int, int] = {}
        """Of owned partitions whose committed position is known."""

    # -- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        context = contextvars.copy_context()
        context.run(HOME.set, self.process)
        loop = asyncio.get_running_loop()
        self.running = loop.create_task(self._run(), context=context)

    def crash(self) -> None:
        """kill -9."""
        self._judge.remove(self._owner)
        self.process.end_tasks()
        self.cluster.network.close(self.name)

    async def _run(self) -> None:
        random = self.cluster.random
        while not self.stopping:
            try:
                # An application commits beside its heartbeats, also before it knows it was fenced.
                for act in random.sample((self.speaker.beat, self._work), 2):
                    await act()
            except (KafkaError, TimeoutError):
                await asyncio.sleep(BACKOFF_SECONDS)
            except MemberEndsError as error:
                self.ended_with = error.code
                break
            await asyncio.sleep(HEARTBEAT_SECONDS * random.uniform(0.5, 1.0))
        if self.ended_with is None:
            await self.give_up(self.owned)
            await self.speaker.leave()
        self._judge.remove(self._owner)

    # -- partitions -----------------------------------------------------------------------------

    @property
    def owned(self) -> frozenset[int]:
        return self._owner.owned

    def take(self, partitions: Collection[int]) -> None:
        """Own more partitions; their positions are not known yet."""
        self._judge.owns(self._owner, self.owned | frozenset(partitions))

    async def give_up(self, partitions: Collection[int]) -> None:
        """Commit, then give partitions up, which takes a moment."""
        if not partitions:
            return
        await asyncio.sleep(self.cluster.random.uniform(0.0, REVOKE_SECONDS_MAX))
        # Without a response its successor may begin at an older position.
        with contextlib.suppress(KafkaError, TimeoutError):
            await self._commit()
        self.lose(partitions)

    def lose(self, partitions: Collection[int]) -> None:
        """Own partitions no longer, at once: the member was fenced."""
        gone = frozenset(partitions)
        self._positions = {p: at for p, at in self._positions.items() if p not in gone}
        self._judge.owns(self._owner, self.owned - gone)

    # -- requests -------------------------------------------------------------------------------

    async def ask(
        self,
        api: ApiKey,
        version: int,
        fields: dict[str, Any],
        *,
        seconds_max: float = SESSION_SECONDS,
    ) -> Answer:
        """Ask the coordinator. Raises KafkaError, TimeoutError; Anomaly for silence when healed."""
        cluster = self.cluster
        was_healed = cluster.is_healed
        before = cluster.state_in_zookeeper(OFFSETS)
        sent_at = asyncio.get_running_loop().time()
        body = messages.encode_request(api, version, {"group_id": self.group, **fields})
        try:
            frame, position = await self._client.ask_leader(
                OFFSETS, api, version, bytes(body), seconds_max=seconds_max
            )
        except TimeoutError:
            if was_healed:
                raise Anomaly(
                    f"{self.group}: {api.name} of {self.name} got no response in {seconds_max} s"
                ) from None
            raise
        after = cluster.state_in_zookeeper(OFFSETS)
        is_leaders = (
            before is not None
            and after is not None
            and (before.leader, before.leader_epoch) == (after.leader, after.leader_epoch)
            and self._client.asked == after.leader
        )
        return Answer(messages.decode_response(api, version, frame, position), sent_at, is_leaders)

    def heard(self, answer: Answer, *, joins: bool = False) -> None:
        """Note that the coordinator accepted a request and restarted the session timeout.

        As in Kafka, a deposed coordinator that has not noticed accepts heartbeats as well.
        """
        if answer.is_leaders:
            self._judge.heard(self._owner, answer.sent_at, joins=joins)

    async def _work(self) -> None:
        unknown = self.owned - self._positions.keys()
        if unknown:
            await self._read(unknown)
        for partition in self._positions:
            self._positions[partition] += self.cluster.random.randint(0, 2)
        if self.cluster.random.random() < COMMIT_CHANCE:
            await self._commit()

    async def _read(self, partitions: Collection[int]) -> None:
        known = {p: self._judge.committed.get(p, 0) for p in partitions}
        sends_epoch = self.speaker.reads_with_its_epoch
        group = {
            "group_id": self.group,
            "member_id": self.speaker.member_id if sends_epoch else None,
            "member_epoch": self.speaker.epoch if sends_epoch else -1,
            "topics": [{"name": TOPIC, "partition_indexes": sorted(partitions)}],
        }
        answer = await self.ask(
            ApiKey.OFFSET_FETCH, FETCH_VERSION, {"groups": [group], "require_stable": True}
        )
        (found,) = answer.body.groups
        if found.error_code != ErrorCode.none or not answer.is_leaders:
            return
        for each in found.topics[0].partitions:
            # The member may have lost the partition meanwhile.
            if each.error_code == ErrorCode.none and each.partition_index in self.owned:
                position = max(each.committed_offset, 0)
                self._judge.read(
                    each.partition_index, position, known[each.partition_index], self._owner
                )
                self._positions[each.partition_index] = position

    async def _commit(self) -> None:
        positions = dict(self._positions)
        if not positions:
            return
        known = {p: self._judge.committed.get(p, 0) for p in positions}
        entries = [
            {
                "partition_index": partition,
                "committed_offset": position,
                "committed_leader_epoch": -1,
                "committed_metadata": "",
            }
            for partition, position in sorted(positions.items())
        ]
        answer = await self.ask(
            ApiKey.OFFSET_COMMIT,
            COMMIT_VERSION,
            {
                "generation_id_or_member_epoch": self.speaker.epoch,
                "member_id": self.speaker.member_id,
                "group_instance_id": self.instance_id,
                "topics": [{"name": TOPIC, "partitions": entries}],
            },
        )
        for each in answer.body.topics[0].partitions:
            if each.error_code == ErrorCode.none:
                at = each.partition_index
                self._judge.acknowledged(at, positions[at], known[at], self._owner)
