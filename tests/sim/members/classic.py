"""The classic protocol of a consumer: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

As Java's AbstractCoordinator and ConsumerCoordinator. An eager member gives up all partitions
before it joins. A cooperative one keeps what it has, gives up what the assignment lacks, and joins
again.
"""

from __future__ import annotations

from typing import Any, Final

from local_cluster.groups.consumer.embedded_protocol import encode_assignment, read_assignment
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.cluster.sim_cluster import SESSION_SECONDS
from tests.sim.members.member import (
    JOIN_ANSWER_SECONDS_MAX,
    PARTITIONS,
    REBALANCE_SECONDS,
    TOPIC,
    Answer,
    MemberEndsError,
    SimMember,
)
from tests.support.classic_consumers import (
    Claim,
    assign,
    by_topic,
    decode_claim,
    encode_subscription,
)

PROTOCOL_TYPE: Final = "consumer"
JOIN_VERSION: Final = 9
SYNC_VERSION: Final = 5
HEARTBEAT_VERSION: Final = 4
LEAVE_VERSION: Final = 5
NO_GENERATION: Final = -1
FATAL: Final = frozenset(
    {
        ErrorCode.fenced_instance_id,
        ErrorCode.inconsistent_group_protocol,
        ErrorCode.group_max_size_reached,
        ErrorCode.invalid_session_timeout,
    }
)


class ClassicSpeaker:
    """`is_cooperative`: which of the two ways of rebalancing."""

    reads_with_its_epoch = False

    def __init__(self, member: SimMember, *, is_cooperative: bool) -> None:
        self.member_id = ""
        self.epoch = NO_GENERATION
        self._member = member
        self._is_cooperative = is_cooperative
        self._must_join = True
        self._owned_since = NO_GENERATION
        """The generation of the last assignment."""

    @property
    def is_settled(self) -> bool:
        return not self._must_join

    async def beat(self) -> None:
        if self._must_join:
            await self._join()
            return
        answer = await self._member.ask(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, self._identity())
        code = ErrorCode(answer.body.error_code)
        if code == ErrorCode.none:
            self._member.heard(answer)
        elif code == ErrorCode.rebalance_in_progress:
            self._must_join = True
        else:
            self._failed(code)

    async def leave(self) -> None:
        if self._member.instance_id is not None or not self.member_id:
            return  # a static member comes back
        leaving = {"member_id": self.member_id, "group_instance_id": None}
        try:
            await self._member.ask(ApiKey.LEAVE_GROUP, LEAVE_VERSION, {"members": [leaving]})
        except (KafkaError, TimeoutError):
            return  # its session ends

    def _identity(self) -> dict[str, Any]:
        return {
            "generation_id": self.epoch,
            "member_id": self.member_id,
            "group_instance_id": self._member.instance_id,
        }

    async def _join(self) -> None:
        if not self._is_cooperative:
            await self._member.give_up(self._member.owned)
        is_new = not self.member_id
        answer = await self._send_join()
        if ErrorCode(answer.body.error_code) == ErrorCode.member_id_required:
            self.member_id = answer.body.member_id
            answer = await self._send_join()
        code = ErrorCode(answer.body.error_code)
        if code == ErrorCode.rebalance_in_progress:
            return
        if code != ErrorCode.none:
            self._failed(code)
            return
        self._member.heard(answer, joins=is_new)
        self.member_id, self.epoch = answer.body.member_id, answer.body.generation_id
        await self._sync(answer.body)

    async def _send_join(self) -> Answer:
        claim = Claim(frozenset((TOPIC, p) for p in self._member.owned), self._owned_since)
        name = "cooperative-sticky" if self._is_cooperative else "range"
        fields = {
            "session_timeout": int(1000 * SESSION_SECONDS),
            "rebalance_timeout": int(1000 * REBALANCE_SECONDS),
            "member_id": self.member_id,
            "group_instance_id": self._member.instance_id,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [{"name": name, "metadata": encode_subscription([TOPIC], claim)}],
            "reason": None,
        }
        return await self._member.ask(
            ApiKey.JOIN_GROUP, JOIN_VERSION, fields, seconds_max=JOIN_ANSWER_SECONDS_MAX
        )

    async def _sync(self, joined: Any) -> None:
        assignments = []
        if joined.leader == self.member_id and not joined.skip_assignment:
            claims = {each.member_id: decode_claim(bytes(each.metadata)) for each in joined.members}
            everything = [(TOPIC, index) for index in PARTITIONS]
            made = assign(claims, everything, cooperative=self._is_cooperative)
            assignments = [
                {"member_id": member_id, "assignment": encode_assignment(2, by_topic(partitions))}
                for member_id, partitions in made.items()
            ]
        answer = await self._member.ask(
            ApiKey.SYNC_GROUP,
            SYNC_VERSION,
            {
                **self._identity(),
                "protocol_type": joined.protocol_type,
                "protocol_name": joined.protocol_name,
                "assignments": assignments,
            },
            seconds_max=JOIN_ANSWER_SECONDS_MAX,
        )
        code = ErrorCode(answer.body.error_code)
        if code == ErrorCode.rebalance_in_progress:
            return
        if code != ErrorCode.none:
            self._failed(code)
            return
        self._member.heard(answer)
        self._must_join = False
        self._owned_since = self.epoch
        given = read_assignment(bytes(answer.body.assignment)).partitions.get(TOPIC, ())
        revoked = self._member.owned - frozenset(given)
        # A member that gave something up joins again, so that another one can have it.
        self._must_join = bool(revoked)
        await self._member.give_up(revoked)
        self._member.take(given)

    def _failed(self, code: ErrorCode) -> None:
        """Raises MemberEndsError, and KafkaError for what is worth another try."""
        if code in FATAL:
            raise MemberEndsError(code)
        if code not in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
            raise KafkaError(code)
        if code == ErrorCode.unknown_member_id:
            self.member_id = ""
        self.epoch = self._owned_since = NO_GENERATION
        self._must_join = True
        self._member.lose(self._member.owned)
