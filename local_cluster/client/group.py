"""Membership in a classic consumer group, for any protocol type.

The membership maintains itself: it joins, gets its assignment and sends heartbeats. It joins again
when the coordinator or its owner demands it. Metadata and assignments of the members are opaque
bytes. The leader of the group computes the assignment of every member.

    joining --JoinGroup--> syncing --SyncGroup--> stable
    syncing, stable --REBALANCE_IN_PROGRESS, rejoin()--> joining
    any --UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION--> joining, as a new member
    any --FENCED_INSTANCE_ID--> GroupFencedError from `run`: another process has the instance id

With a `group_instance_id` the member is static (KIP-345): a process that was killed and started
again takes over its old place and assignment at once. It causes no rebalance, and does not wait for
the session of its predecessor to end.

An assignment stays in use during a rebalance, until `on_assignment` gets a new one. An owner that
needs more checks `is_lease_valid`: whether the coordinator answered within the session timeout.
Source: Kafka's AbstractCoordinator, KIP-345, KIP-394.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import Fields

RETRY_MS_MIN: Final = 50
RETRY_MS_MAX: Final = 2_000
LEAVE_TIMEOUT_MS: Final = 3_000

_RESET_MEMBER: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.illegal_generation})

log = logging.getLogger(__name__)


class GroupFencedError(Exception):
    """Another process joined with the same group instance id. This one must stop."""


class CoordinatorClient(Protocol):
    """The client of a membership. `KafkaClient` is one."""

    async def call_coordinator(
        self, group_id: str, api: ApiKey, fields: Fields, *, timeout_ms: int | None = None
    ) -> Any: ...


class GroupMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class GroupAssignment(NamedTuple):
    """The assignment of this member in a generation."""

    generation_id: int
    member_id: str
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """The parameters of a membership."""

    group_id: str
    protocol_type: str
    protocol_name: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 10_000
    heartbeat_ms: int = 1_000


class GroupMembership:
    """One member. `run` keeps it in the group until it is cancelled."""

    def __init__(
        self,
        client: CoordinatorClient,
        options: GroupOptions,
        *,
        metadata: Callable[[], bytes],
        assign: Callable[[Sequence[GroupMember]], Mapping[str, bytes]],
        on_assignment: Callable[[GroupAssignment], Awaitable[None]],
    ) -> None:
        """`metadata` is called before each join, `assign` only if this member leads.

        The membership needs a client of its own: a join holds the connection until the group is
        complete.
        """
        self._client = client
        self._options = options
        self._metadata = metadata
        self._assign = assign
        self._on_assignment = on_assignment
        self._member_id = ""
        self._generation_id = -1
        self._is_leader = False
        self._rejoin = asyncio.Event()
        self._lease_until_s = 0.0
        self._failure: str | None = None

    @property
    def member_id(self) -> str:
        """The id from the coordinator, "" before the first join."""
        return self._member_id

    @property
    def generation_id(self) -> int:
        """The generation of the last assignment, -1 before the first."""
        return self._generation_id

    @property
    def is_leader(self) -> bool:
        """Whether this member computed the last assignment."""
        return self._is_leader

    @property
    def failure(self) -> str | None:
        """Why the last request to the coordinator failed, None if it did not."""
        return self._failure

    def is_lease_valid(self) -> bool:
        """Whether the coordinator answered within the session timeout, and keeps this member."""
        return time.monotonic() < self._lease_until_s

    def rejoin(self) -> None:
        """Start a rebalance: the member's metadata has changed."""
        self._rejoin.set()

    async def run(self) -> None:
        """Stay in the group until cancelled. Raises GroupFencedError."""
        retry_ms = RETRY_MS_MIN
        while True:
            try:
                await self._join_and_sync()
                retry_ms = RETRY_MS_MIN
                self._failure = None
                await self._stay()
            except KafkaError as error:
                if error.code == ErrorCode.fenced_instance_id:
                    raise GroupFencedError(
                        f"another process is {self._options.group_instance_id} in group "
                        f"{self._options.group_id}"
                    ) from error
                if error.code in _RESET_MEMBER:
                    log.warning("%s: %s, joining as a new member", self._options.group_id, error)
                    self._member_id = ""
                    self._generation_id = -1
                    self._lease_until_s = 0.0
                elif error.code != ErrorCode.rebalance_in_progress:
                    if self._failure is None:
                        log.warning("%s: %s", self._options.group_id, error)
                    self._failure = str(error)
                    await asyncio.sleep(retry_ms / 1000 * random.uniform(0.5, 1.0))
                    retry_ms = min(RETRY_MS_MAX, retry_ms * 2)

    async def leave(self) -> None:
        """Leave at once, so that the others need not wait. Never raises KafkaError."""
        if not self._member_id:
            return
        identity = {
            "member_id": self._member_id,
            "group_instance_id": self._options.group_instance_id,
            "reason": "clean stop",
        }
        fields = {
            "group_id": self._options.group_id,
            "member_id": self._member_id,
            "members": [identity],
        }
        self._lease_until_s = 0.0
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_MS / 1000):
                await self._client.call_coordinator(
                    self._options.group_id, ApiKey.LEAVE_GROUP, fields
                )
        except (KafkaError, TimeoutError) as error:
            log.info("%s: left without LeaveGroup: %s", self._options.group_id, error)
        self._member_id = ""

    async def _join_and_sync(self) -> None:
        self._rejoin.clear()
        joined = await self._join()
        self._member_id = joined.member_id
        generation_id = int(joined.generation_id)
        self._is_leader = joined.leader == joined.member_id
        assignments: list[Fields] = []
        if self._is_leader:
            members = [
                GroupMember(member.member_id, member.group_instance_id, bytes(member.metadata))
                for member in joined.members
            ]
            computed = self._assign(members)
            assignments = [
                {"member_id": member_id, "assignment": assignment}
                for member_id, assignment in computed.items()
            ]
        synced = await self._request(
            ApiKey.SYNC_GROUP,
            {
                "generation_id": generation_id,
                "protocol_type": self._options.protocol_type,
                "protocol_name": self._options.protocol_name,
                "assignments": assignments,
            },
            self._options.rebalance_timeout_ms + self._options.session_timeout_ms,
        )
        self._generation_id = generation_id
        await self._on_assignment(
            GroupAssignment(generation_id, self._member_id, bytes(synced.assignment))
        )

    async def _join(self) -> Any:
        options = self._options
        while True:
            try:
                return await self._request(
                    ApiKey.JOIN_GROUP,
                    {
                        "session_timeout": options.session_timeout_ms,
                        "rebalance_timeout": options.rebalance_timeout_ms,
                        "protocol_type": options.protocol_type,
                        "protocols": [
                            {"name": options.protocol_name, "metadata": self._metadata()}
                        ],
                    },
                    # A join is answered when the group is complete: at worst when the sessions of
                    # dead members have expired and the slowest member has joined.
                    options.rebalance_timeout_ms + options.session_timeout_ms,
                )
            except _MemberIdRequiredError as error:
                self._member_id = error.member_id

    async def _stay(self) -> None:
        """Send heartbeats until a rebalance is due. Raises KafkaError."""
        while True:
            try:
                async with asyncio.timeout(self._options.heartbeat_ms / 1000):
                    await self._rejoin.wait()
                return
            except TimeoutError:
                pass
            try:
                await self._request(
                    ApiKey.HEARTBEAT,
                    {"generation_id": self._generation_id},
                    self._options.session_timeout_ms,
                )
                self._failure = None
            except KafkaError as error:
                if not error.retriable:
                    raise
                # One lost heartbeat does not end the membership.
                self._failure = str(error)
                if not self.is_lease_valid():
                    raise

    async def _request(self, api: ApiKey, fields: dict[str, Any], timeout_ms: int) -> Any:
        """Send a request as this member. A success renews the lease. Raises KafkaError."""
        sent_s = time.monotonic()
        response = await self._client.call_coordinator(
            self._options.group_id,
            api,
            {
                "group_id": self._options.group_id,
                "member_id": self._member_id,
                "group_instance_id": self._options.group_instance_id,
                **fields,
            },
            timeout_ms=timeout_ms,
        )
        code = ErrorCode(response.error_code)
        if code == ErrorCode.member_id_required:
            raise _MemberIdRequiredError(response.member_id)
        if code and code != ErrorCode.rebalance_in_progress:
            raise KafkaError(code, api.name)
        # The coordinator started the session timeout at the latest when it answered. Counted from
        # the request, the lease never outlives it. A join waits long, but ends with a new session.
        started_s = time.monotonic() if api == ApiKey.JOIN_GROUP else sent_s
        self._lease_until_s = started_s + self._options.session_timeout_ms / 1000
        if code:
            raise KafkaError(code, api.name)
        return response


class _MemberIdRequiredError(Exception):
    def __init__(self, member_id: str) -> None:
        super().__init__(member_id)
        self.member_id = member_id
