"""The consumer protocol (KIP-848) of a member: ConsumerGroupHeartbeat alone.

As Java's AbstractHeartbeatRequestManager and ConsumerMembershipManager: a heartbeat has what
changed since the last one; after a request without a response it has everything.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, Final

from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.members.member import REBALANCE_SECONDS, TOPIC, MemberEndsError, SimMember

HEARTBEAT_VERSION: Final = 1
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
FENCED: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch})
FATAL: Final = frozenset(
    {
        ErrorCode.fenced_instance_id,
        ErrorCode.unreleased_instance_id,
        ErrorCode.group_id_not_found,
        ErrorCode.group_max_size_reached,
        ErrorCode.invalid_request,
        ErrorCode.unsupported_version,
    }
)


class ConsumerSpeaker:
    """`member_id`: chosen by the client, for the life of its process."""

    reads_with_its_epoch = True

    def __init__(self, member: SimMember, topic_id: uuid.UUID) -> None:
        self.member_id = str(uuid.UUID(int=member.cluster.random.getrandbits(128), version=4))
        self.epoch = JOIN_EPOCH
        self._member = member
        self._topic_id = topic_id
        self._is_full = True
        self._reported: frozenset[int] = frozenset()
        """The partitions of the last heartbeat that reported any."""

    @property
    def is_settled(self) -> bool:
        return self.epoch > 0 and self._reported == self._member.owned

    async def beat(self) -> None:
        while await self._beat_once():
            # A change is confirmed at once.
            await asyncio.sleep(0)

    async def leave(self) -> None:
        if self.epoch <= 0:
            return
        epoch = LEAVE_EPOCH if self._member.instance_id is None else LEAVE_STATIC_EPOCH
        try:
            await self._member.ask(
                ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, self._fields(epoch)
            )
        except (KafkaError, TimeoutError):
            return  # its session ends

    def _fields(self, epoch: int) -> dict[str, Any]:
        return {
            "member_id": self.member_id,
            "member_epoch": epoch,
            "instance_id": self._member.instance_id,
            "rack_id": None,
            "rebalance_timeout": -1,
            "subscribed_topic_names": None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": None,
        }

    async def _beat_once(self) -> bool:
        """Return whether partitions have changed."""
        fields = self._fields(self.epoch)
        owned = self._member.owned
        if self._is_full or self.epoch == JOIN_EPOCH:
            fields |= {
                "rebalance_timeout": int(1000 * REBALANCE_SECONDS),
                "subscribed_topic_names": [TOPIC],
            }
        if self._is_full or self.epoch == JOIN_EPOCH or owned != self._reported:
            entry = {"topic_id": self._topic_id, "partitions": sorted(owned)}
            fields["topic_partitions"] = [entry] if owned else []
        self._is_full = True
        answer = await self._member.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, fields)
        code = ErrorCode(answer.body.error_code)
        if code in FENCED:
            self.epoch = JOIN_EPOCH
            self._member.lose(self._member.owned)
            self._reported = frozenset()
            return False
        if code in FATAL:
            raise MemberEndsError(code)
        if code != ErrorCode.none:
            raise KafkaError(code)
        is_new = self.epoch == JOIN_EPOCH
        self._is_full = False
        self._reported = owned
        self.epoch = answer.body.member_epoch
        self._member.heard(answer, joins=is_new)
        return answer.body.assignment is not None and await self._reconcile(answer.body.assignment)

    async def _reconcile(self, assignment: Any) -> bool:
        target = frozenset(
            index for each in assignment.topic_partitions for index in each.partitions
        )
        before = self._member.owned
        await self._member.give_up(before - target)
        self._member.take(target)
        return self._member.owned != before
