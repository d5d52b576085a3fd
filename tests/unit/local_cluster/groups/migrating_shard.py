"""One shard with a group whose members use both protocols, and the log that it writes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from local_cluster.coordinator_runtime.outcome import Now, Outcome, StoredRecord
from local_cluster.groups.consumer.embedded_protocol import encode_assignment
from local_cluster.groups.consumer.model import Assignment
from local_cluster.groups.consumer.requests import HeartbeatRequest, HeartbeatResponse
from local_cluster.groups.consumer.topics import TopicFacts
from local_cluster.groups.requests import (
    GroupLimits,
    JoinRequest,
    JoinResponse,
    SyncRequest,
)
from local_cluster.groups.requests import HeartbeatRequest as ClassicHeartbeatRequest
from local_cluster.groups.shard import GroupShard
from local_cluster.wire.errors import ErrorCode
from tests.support.classic_consumers import Claim, encode_subscription

GROUP = "boards"
SESSION_MS = 10_000
"""Of classic members."""
TOPIC = TopicFacts("a", uuid.UUID(int=1), 4)
BEGAN_MS = 1_700_000_000_000
LIMITS = GroupLimits(group_initial_rebalance_delay_ms=0)


class OneTopic:
    """A cluster with one topic that does not change."""

    version = 1

    def get(self, name: str) -> TopicFacts | None:
        return TOPIC if name == TOPIC.name else None

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None:
        return TOPIC if topic_id == TOPIC.topic_id else None

    def names(self) -> Iterable[str]:
        return (TOPIC.name,)


class MigratingShard:
    """Sends requests at `now_ms`, which the tests move."""

    def __init__(self) -> None:
        self.shard = GroupShard(LIMITS, OneTopic())
        self.now_ms = 0
        self.log: list[StoredRecord] = []

    @property
    def members(self) -> set[str]:
        classic = self.shard.state.classic_groups.get(GROUP)
        consumer = self.shard.state.consumer_groups.get(GROUP)
        return set(classic.members if classic else consumer.members if consumer else ())

    def pass_time(self, until_ms: int) -> None:
        """Expire what is due by then."""
        self.now_ms = until_ms
        self._take(self.shard.expire_timers(self._now()))

    def load_again(self) -> None:
        """Another coordinator reads the log."""
        self.shard = GroupShard(LIMITS, OneTopic())
        for key, value in self.log:
            self.shard.replay(key, value)
        self._take(self.shard.finish_load(self._now()))

    # -- classic members --------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        owned: Iterable[int] = (),
        generation: int = -1,
        member_uuid: str = "",
        requires_known_member_id: bool = False,
    ) -> JoinResponse | None:
        """Return the response; None while the member waits. `generation` is that of `owned`."""
        claim = Claim(frozenset((TOPIC.name, index) for index in owned), generation)
        request = JoinRequest(
            group_id=GROUP,
            member_id=member_id,
            group_instance_id=None,
            client_id="c",
            client_host="/h",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=(("range", encode_subscription([TOPIC.name], claim)),),
            member_uuid=member_uuid,
            requires_known_member_id=requires_known_member_id,
        )
        response = self._own_response(self.shard.join(1, request, self._now()))
        assert response is None or isinstance(response, JoinResponse)
        return response

    def sync(
        self,
        member_id: str,
        generation: int,
        *given: str,
        partitions: Iterable[int] = range(TOPIC.partitions),
    ) -> None:
        """The leader gives the partitions to each of these members."""
        payload = encode_assignment(2, {TOPIC.name: partitions})
        assignments = tuple((each, payload) for each in given)
        request = SyncRequest(GROUP, member_id, None, generation, "consumer", "range", assignments)
        self._take(self.shard.sync(1, request, self._now()))

    def heartbeat(self, member_id: str, generation: int) -> ErrorCode:
        request = ClassicHeartbeatRequest(GROUP, member_id, None, generation)
        response = self._own_response(self.shard.heartbeat(1, request, self._now()))
        assert isinstance(response, ErrorCode)
        return response

    # -- consumer members -------------------------------------------------------------------

    def beat(
        self, member_id: str, epoch: int, owned: Assignment | None = None
    ) -> HeartbeatResponse:
        request = HeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=None,
            rack_id=None,
            rebalance_timeout_ms=60_000,
            topic_names=(TOPIC.name,),
            topic_regex=None,
            server_assignor=None,
            owned=owned or {},
            client_id="c",
            client_host="/h",
            may_describe=lambda name: True,
        )
        response = self._own_response(self.shard.consumer_heartbeat(1, request, self._now()))
        assert isinstance(response, HeartbeatResponse)
        return response

    # -- inside -----------------------------------------------------------------------------

    def _now(self) -> Now:
        return Now(monotonic_ms=self.now_ms, wall_ms=BEGAN_MS + self.now_ms)

    def _take(self, outcome: Outcome) -> None:
        self.log += outcome.records

    def _own_response(self, outcome: Outcome) -> object:
        """Return the response to the last request; others may have waited for this step."""
        self._take(outcome)
        return outcome.responses[-1][1] if outcome.responses else None
