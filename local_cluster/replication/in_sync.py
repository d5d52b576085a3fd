"""The leader's view of a partition's replicas: who has how much, who is in sync, what is committed.

Pure: time and offsets come from outside. The rules are Kafka's (Partition.scala of 4.x):

    the high watermark   is the least end offset of the in-sync replicas; of the union of the old
                         and the new ones while a change is under way; and of those that are not in
                         sync but were caught up lately and live, which could else never join
    it moves             only while as many are in sync as min.insync.replicas asks for (KIP-966)
    a replica leaves     when it was not caught up for replica.lag.time.max.ms
    a replica joins      at the high watermark, and not before the start of the leader's epoch, if
                         its broker is alive in the run that fetched (KIP-903), and if it would not
                         leave at once (Kafka looks at who joins with its fetches only)

An end offset is what a follower fetches at. Followers fetch at their log end only when that is
durable (response_rules.py), so with `flush: fsync` every end offset here is an fsynced one.

Guarantees: an end offset counts only within the leader epoch in which it was told; one proposal is
under way at a time, and its outcome is taken from a state with a newer version only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from local_cluster.controller.model.cluster_image import PartitionState
from local_cluster.wire.errors import ErrorCode, KafkaError

UNKNOWN_OFFSET: Final = -1
NEVER_MS: Final = -(1 << 62)


class FollowerProgress:
    """What the leader knows of one follower, in the present leader epoch."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "fetched_at_leader_end",
        "fetched_ms",
        "log_start_offset",
    )

    def __init__(self) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch = -1
        self.caught_up_ms = NEVER_MS
        """When it last had everything that the leader had."""
        self.fetched_ms = NEVER_MS
        self.fetched_at_leader_end = UNKNOWN_OFFSET
        """The leader's end at the last fetch: who reaches it was caught up then."""


class InSyncReplicas:
    """The replicas of one partition that this broker leads."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self.state = PartitionState(-1, (), -1, -1, (), -1)
        self.followers: dict[int, FollowerProgress] = {}
        self.proposed: tuple[int, ...] | None = None
        """The in-sync replicas that the controller was asked to write, until that is decided."""
        self._proposal: Sequence[tuple[int, int]] = ()
        self._epoch_start_offset = 0

    # -- what the controller says -----------------------------------------------------------

    def lead(self, state: PartitionState, *, log_end_offset: int, now_ms: int) -> None:
        """Begin a leader epoch: what followers told in an earlier one is void."""
        assert state.leader == self._broker_id, "somebody else leads"
        self.state = state
        self.proposed = None
        self._epoch_start_offset = log_end_offset
        self.followers = {r: FollowerProgress() for r in state.replicas if r != self._broker_id}
        for replica in state.isr:
            if replica in self.followers:
                self.followers[replica].caught_up_ms = now_ms

    def adopt(self, state: PartitionState) -> bool:
        """Take over a state of the present leader epoch; whether it is news."""
        assert state.leader_epoch == self.state.leader_epoch, "another epoch begins with lead()"
        if state.zk_version < self.state.zk_version or state == self.state:
            return False
        if state.zk_version > self.state.zk_version:
            # Whatever was proposed on the version before is now either in it or refused.
            self.proposed = None
        self.state = state
        ids = [r for r in state.replicas if r != self._broker_id]
        self.followers = {r: self.followers.get(r) or FollowerProgress() for r in ids}
        return True

    # -- what followers say -----------------------------------------------------------------

    def fetched(
        self,
        replica: int,
        *,
        broker_epoch: int,
        end_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        now_ms: int,
    ) -> None:
        """A follower fetches at its end offset, in the present leader epoch, without divergence.

        Raises KafkaError: unknown_topic_or_partition where it holds no replica, as Kafka does;
        not_leader_or_follower for a fetch of an earlier run of its broker (KIP-903).
        """
        progress = self.followers.get(replica)
        if progress is None:
            raise KafkaError(
                ErrorCode.unknown_topic_or_partition, f"broker {replica} holds no replica"
            )
        if broker_epoch < progress.broker_epoch:
            raise KafkaError(
                ErrorCode.not_leader_or_follower, f"broker {replica} was started again since"
            )
        if end_offset >= leader_end_offset:
            progress.caught_up_ms = max(progress.caught_up_ms, now_ms)
        elif end_offset >= progress.fetched_at_leader_end >= 0:
            progress.caught_up_ms = max(progress.caught_up_ms, progress.fetched_ms)
        progress.end_offset = end_offset
        progress.log_start_offset = log_start_offset
        progress.broker_epoch = broker_epoch
        progress.fetched_ms = now_ms
        progress.fetched_at_leader_end = leader_end_offset

    def left_behind(self, end_before: int, now_ms: int) -> None:
        """The leader's log grows beyond `end_before`: who had all until now was caught up now.

        A follower that is at rest says nothing meanwhile (it fetches within a session), so the
        time of its last word is not when it fell behind.
        """
        for progress in self.followers.values():
            if progress.end_offset == end_before:
                progress.caught_up_ms = max(progress.caught_up_ms, now_ms)

    # -- what follows from it ---------------------------------------------------------------

    @property
    def counts_others(self) -> bool:
        """Whether a follower is in sync, so that the leader's own end alone commits nothing."""
        isr = self.state.isr
        return any(replica in isr for replica in self.followers)

    def min_in_sync(self, configured: int) -> int:
        """min.insync.replicas, but never more than there are replicas."""
        return min(configured, len(self.state.replicas))

    def is_under_min(self, min_insync_replicas: int) -> bool:
        return len(self.state.isr) < self.min_in_sync(min_insync_replicas)

    def committed_offset(
        self,
        own_end_offset: int,
        *,
        min_insync_replicas: int,
        now_ms: int,
        lag_ms_max: int,
        broker_epochs: Mapping[int, int],
    ) -> int:
        """Up to where all that count have the log; UNKNOWN_OFFSET where that must not move.

        `broker_epochs` are those of the live brokers.
        """
        if self.is_under_min(min_insync_replicas):
            return UNKNOWN_OFFSET
        isr, proposed = self.state.isr, self.proposed or ()
        least = own_end_offset
        for replica, progress in self.followers.items():
            if progress.end_offset >= least:
                continue
            may_join = (
                progress.end_offset != UNKNOWN_OFFSET
                and now_ms - progress.caught_up_ms <= lag_ms_max
                and broker_epochs.get(replica) == progress.broker_epoch
            )
            if replica in isr or replica in proposed or may_join:
                least = progress.end_offset
        return least

    def low_watermark(self, own_log_start_offset: int, live: Collection[int]) -> int:
        """The lowest log start of the live replicas; UNKNOWN_OFFSET where one is not known."""
        starts = [p.log_start_offset for r, p in self.followers.items() if r in live]
        return min([own_log_start_offset, *starts])

    def decide_isr(
        self,
        *,
        leader_end_offset: int,
        high_watermark: int,
        now_ms: int,
        lag_ms_max: int,
        broker_epochs: Mapping[int, int],
    ) -> tuple[int, ...] | None:
        """The in-sync replicas to propose, None where the present ones are right.

        `broker_epochs` are those of the live brokers.
        """
        if self.proposed is not None:
            return None
        isr = [
            replica
            for replica in self.state.isr
            if replica == self._broker_id
            or not self._lags(replica, leader_end_offset, now_ms, lag_ms_max)
        ]
        isr += self.joining(
            leader_end_offset=leader_end_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
            lag_ms_max=lag_ms_max,
            broker_epochs=broker_epochs,
        )
        return None if set(isr) == set(self.state.isr) else tuple(isr)

    def joining(
        self,
        *,
        leader_end_offset: int,
        high_watermark: int,
        now_ms: int,
        lag_ms_max: int,
        broker_epochs: Mapping[int, int],
    ) -> Sequence[int]:
        """Followers that are not in sync and may be.

        Whoever would be thrown out at once may not: where the high watermark is held by
        min.insync.replicas, the last word of a follower that says nothing more reaches it still.
        """
        if self.proposed is not None or len(self.state.isr) == len(self.state.replicas):
            return ()
        least = max(high_watermark, self._epoch_start_offset)
        return [
            replica
            for replica, progress in self.followers.items()
            if replica not in self.state.isr
            and progress.end_offset >= least
            and broker_epochs.get(replica) == progress.broker_epoch
            and not self._lags(replica, leader_end_offset, now_ms, lag_ms_max)
        ]

    def propose(self, isr: tuple[int, ...]) -> None:
        """Have these asked for until it is decided, in the runs of their brokers that told now
        where they are: a later one may have less, and is not vouched for by a repetition."""
        self.proposed = isr
        self._proposal = [
            (r, self.followers[r].broker_epoch if r in self.followers else -1) for r in isr
        ]

    def proposal(self) -> Sequence[tuple[int, int]]:
        """(broker id, broker epoch) of what is proposed; -1 for an epoch that is not known."""
        return () if self.proposed is None else self._proposal

    def is_unheard(self, replica: int) -> bool:
        """Whether a follower has yet to tell, in this leader epoch, where it is."""
        progress = self.followers.get(replica)
        return progress is not None and progress.end_offset == UNKNOWN_OFFSET

    def _lags(self, replica: int, leader_end_offset: int, now_ms: int, lag_ms_max: int) -> bool:
        progress = self.followers.get(replica)
        if progress is None:
            return True  # reassigned away
        has_all = progress.end_offset == leader_end_offset
        return not has_all and now_ms - progress.caught_up_ms > lag_ms_max
