"""The in-sync replicas of one partition, as its leader sees them. Pure: time comes from outside.

The rules are Kafka's (Partition.scala of 4.x):

    high watermark   the least log end offset of the ISR. While an ISR change is in flight, of the
                     old and the new ISR. A live follower outside the ISR that was caught up
                     lately counts too: it could never join otherwise
    it advances      only while the ISR has min.insync.replicas members (KIP-966)
    shrink           a follower leaves if it was not caught up for replica.lag.time.max.ms
    expand           a follower joins at the high watermark, at or after the start of the leader
                     epoch, if its broker is alive in the broker epoch of its fetch (KIP-903), and
                     if it would not leave again at once. Kafka checks this only when it fetches

A follower's log end offset is the offset that it fetches at. It fetches at its log end only when
that is durable (follower/response_rules.py). So with `flush: fsync` every offset here is fsynced.

Guarantees: an offset counts only in the leader epoch in which the follower reported it. One
proposal is in flight at a time. Only a newer state of the partition decides it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from local_cluster.controller.model.cluster_image import PartitionState
from local_cluster.wire.errors import ErrorCode, KafkaError

UNKNOWN_OFFSET: Final = -1
UNKNOWN_EPOCH: Final = -1
NEVER_MS: Final = -(1 << 62)


class LiveBrokers(NamedTuple):
    """The facts that decide at one moment who may be in sync."""

    now_ms: int
    """Monotonic."""
    lag_ms_max: int
    """replica.lag.time.max.ms."""
    epochs: Mapping[int, int]
    """The broker epochs of the live brokers, by broker id."""


class FollowerState:
    """One follower in the present leader epoch."""

    __slots__ = (
        "broker_epoch",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self) -> None:
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch = UNKNOWN_EPOCH
        self.last_caught_up_ms = NEVER_MS
        """When it last had all records of the leader."""
        self.last_fetch_ms = NEVER_MS
        self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
        """A follower that reaches this offset was caught up at its last fetch."""


class InSyncReplicas:
    """The replicas of one partition that this broker leads."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self.state = PartitionState(-1, (), -1, -1, (), -1)
        self.followers: dict[int, FollowerState] = {}
        self.proposed_isr: tuple[int, ...] | None = None
        """The ISR that the controller was asked to write, until that is decided."""
        self._proposal: Sequence[tuple[int, int]] = ()
        self._epoch_start_offset = 0

    # -- the controller's states ------------------------------------------------------------

    def start_epoch(self, state: PartitionState, *, log_end_offset: int, now_ms: int) -> None:
        """Start a leader epoch: forget what followers reported in an earlier one."""
        assert state.leader == self._broker_id, "another broker leads"
        self.state = state
        self.proposed_isr = None
        self._epoch_start_offset = log_end_offset
        self.followers = {r: FollowerState() for r in state.replicas if r != self._broker_id}
        for replica in state.isr:
            if replica in self.followers:
                self.followers[replica].last_caught_up_ms = now_ms

    def update(self, state: PartitionState) -> bool:
        """Take over a state of the present leader epoch. Return whether anything changed."""
        assert state.leader_epoch == self.state.leader_epoch, "start_epoch() starts another epoch"
        if state.zk_version < self.state.zk_version or state == self.state:
            return False
        if state.zk_version > self.state.zk_version:
            # A proposal on the version before is now either part of the state or refused.
            self.proposed_isr = None
        self.state = state
        ids = [r for r in state.replicas if r != self._broker_id]
        self.followers = {r: self.followers.get(r) or FollowerState() for r in ids}
        return True

    # -- fetches and appends ----------------------------------------------------------------

    def record_fetch(
        self,
        replica: int,
        *,
        broker_epoch: int,
        log_end_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        now_ms: int,
    ) -> None:
        """Record a follower's fetch at its log end, in the present epoch, without divergence.

        Raises KafkaError: unknown_topic_or_partition if it holds no replica, as Kafka does;
        not_leader_or_follower if the broker has restarted since (KIP-903).
        """
        follower = self.followers.get(replica)
        if follower is None:
            raise KafkaError(
                ErrorCode.unknown_topic_or_partition, f"broker {replica} holds no replica"
            )
        if broker_epoch < follower.broker_epoch:
            raise KafkaError(
                ErrorCode.not_leader_or_follower,
                f"broker {replica} fetches in broker epoch {broker_epoch}, "
                f"but has fetched in {follower.broker_epoch}",
            )
        if log_end_offset >= leader_end_offset:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)
        elif log_end_offset >= follower.last_fetch_leader_end_offset >= 0:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, follower.last_fetch_ms)
        follower.log_end_offset = log_end_offset
        follower.log_start_offset = log_start_offset
        follower.broker_epoch = broker_epoch
        follower.last_fetch_ms = now_ms
        follower.last_fetch_leader_end_offset = leader_end_offset

    def record_append(self, end_offset_before: int, now_ms: int) -> None:
        """Record that the leader's log grows: followers that had all of it fall behind now.

        An idle follower of a fetch session does not fetch meanwhile. So the time of its last
        fetch is not the time when it fell behind.
        """
        for follower in self.followers.values():
            if follower.log_end_offset == end_offset_before:
                follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)

    # -- the high watermark -----------------------------------------------------------------

    @property
    def has_in_sync_followers(self) -> bool:
        """Whether a follower is in sync, so that the leader alone commits nothing."""
        isr = self.state.isr
        return any(replica in isr for replica in self.followers)

    def is_under_min_isr(self, min_insync_replicas: int) -> bool:
        """Whether the ISR is too small. No more members are required than there are replicas."""
        return len(self.state.isr) < min(min_insync_replicas, len(self.state.replicas))

    def committed_offset(
        self, leader_end_offset: int, live: LiveBrokers, *, min_insync_replicas: int
    ) -> int:
        """Return the high watermark that follows, UNKNOWN_OFFSET if it must not advance."""
        if self.is_under_min_isr(min_insync_replicas):
            return UNKNOWN_OFFSET
        isr, proposed = self.state.isr, self.proposed_isr or ()
        least = leader_end_offset
        for replica, follower in self.followers.items():
            if follower.log_end_offset >= least:
                continue
            may_join = (
                follower.log_end_offset != UNKNOWN_OFFSET
                and live.now_ms - follower.last_caught_up_ms <= live.lag_ms_max
                and live.epochs.get(replica) == follower.broker_epoch
            )
            if replica in isr or replica in proposed or may_join:
                least = follower.log_end_offset
        return least

    def low_watermark(self, own_log_start_offset: int, live: Collection[int]) -> int:
        """Return the least log start offset of the live replicas, UNKNOWN_OFFSET if one is."""
        starts = [f.log_start_offset for r, f in self.followers.items() if r in live]
        return min([own_log_start_offset, *starts])

    # -- shrink and expand ------------------------------------------------------------------

    def decide_isr(
        self, live: LiveBrokers, *, leader_end_offset: int, high_watermark: int
    ) -> tuple[int, ...] | None:
        """Return the ISR to propose, None if the present one is right."""
        if self.proposed_isr is not None:
            return None
        isr = [
            replica
            for replica in self.state.isr
            if replica == self._broker_id or not self._is_lagging(replica, leader_end_offset, live)
        ]
        isr += self.decide_expansion(
            live, leader_end_offset=leader_end_offset, high_watermark=high_watermark
        )
        return None if set(isr) == set(self.state.isr) else tuple(isr)

    def decide_expansion(
        self, live: LiveBrokers, *, leader_end_offset: int, high_watermark: int
    ) -> Sequence[int]:
        """Return the followers that may join the ISR.

        A follower that would leave again at once may not join. While min.insync.replicas holds
        the high watermark, the last fetch of a follower that has hung since still reaches it.
        """
        if self.proposed_isr is not None or len(self.state.isr) == len(self.state.replicas):
            return ()
        least = max(high_watermark, self._epoch_start_offset)
        return [
            replica
            for replica, follower in self.followers.items()
            if replica not in self.state.isr
            and follower.log_end_offset >= least
            and live.epochs.get(replica) == follower.broker_epoch
            and not self._is_lagging(replica, leader_end_offset, live)
        ]

    def propose(self, isr: tuple[int, ...]) -> None:
        """Start a proposal, with the broker epochs of the followers' last fetches.

        Repetitions name the same epochs: after a restart a broker may have fewer records.
        """
        self.proposed_isr = isr
        self._proposal = [
            (r, self.followers[r].broker_epoch if r in self.followers else UNKNOWN_EPOCH)
            for r in isr
        ]

    def withdraw(self) -> None:
        """End the proposal: the controller has refused it for good."""
        self.proposed_isr = None

    def proposal(self) -> Sequence[tuple[int, int]]:
        """Return (broker id, broker epoch or UNKNOWN_EPOCH) of each member of the proposed ISR."""
        return () if self.proposed_isr is None else self._proposal

    def awaits_fetch(self, replica: int) -> bool:
        """Whether a follower has not fetched yet in this leader epoch."""
        follower = self.followers.get(replica)
        return follower is not None and follower.log_end_offset == UNKNOWN_OFFSET

    def _is_lagging(self, replica: int, leader_end_offset: int, live: LiveBrokers) -> bool:
        follower = self.followers.get(replica)
        if follower is None:
            return True  # reassigned away
        is_caught_up = follower.log_end_offset == leader_end_offset
        return not is_caught_up and live.now_ms - follower.last_caught_up_ms > live.lag_ms_max
