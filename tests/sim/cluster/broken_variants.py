"""Deliberately broken brokers: each breaks one rule that a promise hangs on.

The simulation must notice every one of them, else it proves nothing. To add one: a function that
patches the rule away, and its line in VARIANTS with a seed that notices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Final, NamedTuple
from unittest import mock

from local_cluster.controller.active import active_controller, isr_writer
from local_cluster.controller.active.state_writer import StateWriter
from local_cluster.controller.decisions import elections, isr_requests, reassignments
from local_cluster.controller.decisions.elections import decide_leader
from local_cluster.controller.member import isr_messages
from local_cluster.controller.member.isr_messages import response_fields
from local_cluster.controller.model.cluster_image import NO_LEADER, PartitionState
from local_cluster.controller.zk.coordination import ANY_VERSION, SetPayload
from local_cluster.controller.zk.term import Term
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.state.producer_state import ProducerState
from local_cluster.replication.in_sync import UNKNOWN_OFFSET, InSyncReplicas
from local_cluster.replication.partition import Partition
from local_cluster.replication.replica_set import ReplicaSet
from local_cluster.server.log_dir_moves import LogDirMoves
from local_cluster.wire.errors import ErrorCode
from tests.sim.cluster.broken_deletions import (
    delete_what_nobody_asked_for,
    never_tell_followers_what_was_deleted,
    refuse_the_batch_to_begin_within,
)
from tests.sim.cluster.broken_transactions import (
    Broken,
    answer_before_the_decision_is_written,
    end_transactions_of_any_epoch,
    forget_what_was_decided,
    mark_only_what_is_led_here,
    never_time_transactions_out,
    read_past_open_transactions,
    serve_producers_that_were_replaced,
    show_new_leaders_readers_nothing,
    show_what_was_aborted,
)


def acknowledge_before_replicating() -> Broken:
    """The leader alone decides what is committed."""
    return mock.patch.object(InSyncReplicas, "committed_offset", lambda self, own, **_: own)


def forget_min_insync_replicas() -> Broken:
    """The high watermark moves however few are in sync."""
    return mock.patch.object(InSyncReplicas, "is_under_min", lambda self, least: False)


def take_a_proposal_for_decided() -> Broken:
    """The leader goes by the in-sync replicas that it only asked for."""
    decide = Partition.decide_isr

    def decide_and_believe(self: Partition) -> tuple[int, ...] | None:
        decided = decide(self)
        if decided is not None and self.in_sync is not None:
            self.in_sync.state = self.in_sync.state._replace(isr=decided)
        return decided

    return mock.patch.object(Partition, "decide_isr", decide_and_believe)


def never_truncate() -> Broken:
    """A former leader keeps what was never committed."""
    return mock.patch.object(Partition, "find_divergence", lambda self, offset, epoch: None)


def truncate_to_the_high_watermark() -> Broken:
    """What Kafka did before KIP-101: a follower knows the high watermark too late."""
    resign = Partition.resign

    def resign_and_cut(self: Partition, *args: Any) -> None:
        resign(self, *args)
        if self.high_watermark < self.log.log_end_offset:
            self.log.truncation.truncate_to(self.high_watermark, 0)

    stack = ExitStack()
    stack.enter_context(mock.patch.object(Partition, "resign", resign_and_cut))
    stack.enter_context(never_truncate())
    return stack


def count_what_a_follower_has_not_flushed() -> Broken:
    """A follower asks for more before it has on its disk what it got."""
    return mock.patch.object(Partition, "durable", lambda self: None)


def count_what_the_leader_has_not_flushed() -> Broken:
    """The leader's page cache counts as its disk."""
    return mock.patch.object(Partition, "_in_sync_end_offset", lambda self: self.log.log_end_offset)


def let_replicas_join_early() -> Broken:
    """A follower that is behind the high watermark may be in sync."""

    def joining(self: InSyncReplicas, **_: object) -> list[int]:
        if self.proposed is not None:
            return []
        return [
            replica
            for replica, progress in self.followers.items()
            if replica not in self.state.isr and progress.end_offset >= 0
        ]

    return mock.patch.object(InSyncReplicas, "joining", joining)


def believe_any_proposal() -> Broken:
    """The controller writes the in-sync replicas of a leader that it deposed (a stale znode)."""

    def decide(state: Any, partition: Any, broker_id: int, proposal: Any) -> Any:
        ids = tuple(replica for replica, _ in proposal.isr)
        return partition._replace(isr=ids, leader=broker_id)

    stack = ExitStack()
    replaced = {
        isr_requests.decide_isr: decide,
        isr_requests.check_proposer: lambda state, broker_id, broker_epoch: None,
    }
    for module in (isr_requests, isr_writer, active_controller):
        for name, value in list(vars(module).items()):
            if callable(value) and value in replaced:
                stack.enter_context(mock.patch.object(module, name, replaced[value]))
    return stack


def skip_the_fence_of_the_controller() -> Broken:
    """A deposed controller goes on writing, whatever versions the states have."""
    write = StateWriter._op

    def unconditional(self: StateWriter, request: Any) -> Any:
        op = write(self, request)
        return dataclasses.replace(op, version=ANY_VERSION) if isinstance(op, SetPayload) else op

    async def commit(self: Term, coordination: Any, ops: Any) -> Any:
        return await coordination.commit(tuple(ops))

    stack = ExitStack()
    stack.enter_context(mock.patch.object(StateWriter, "_op", unconditional))
    stack.enter_context(mock.patch.object(Term, "commit", commit))
    return stack


def forget_the_replicas_that_join() -> Broken:
    """Only the in-sync replicas that are decided count, while others are being added."""

    def committed(self: InSyncReplicas, own: int, *, min_insync_replicas: int, **_: Any) -> int:
        if self.is_under_min(min_insync_replicas):
            return UNKNOWN_OFFSET
        ends = [
            self.followers[replica].end_offset
            for replica in self.state.isr
            if replica in self.followers
        ]
        return min([own, *ends])

    return mock.patch.object(InSyncReplicas, "committed_offset", committed)


def take_the_log_for_committed_when_elected() -> Broken:
    """A new leader shows what its followers do not have."""
    become_leader = Partition.become_leader

    def become_and_commit(self: Partition, *args: Any) -> None:
        began = not self.is_leader
        become_leader(self, *args)
        if began:
            self._high_watermark = self.log.log_end_offset

    return mock.patch.object(Partition, "become_leader", become_and_commit)


def acknowledge_when_leadership_ends() -> Broken:
    """What waits for its commit is answered as if it were committed."""

    def settle_all(self: Partition, code: ErrorCode) -> None:
        parked, self._parked = self._parked, []
        for _, _, settle in parked:
            settle(ErrorCode.none)

    return mock.patch.object(Partition, "fail_parked", settle_all)


def serve_followers_of_any_epoch() -> Broken:
    """A leader counts what a follower told in another epoch."""
    return mock.patch.object(Partition, "require_epoch", lambda self, epoch: None)


def keep_the_leader_epoch() -> Broken:
    """Another leader goes on in the epoch of the one before."""

    def decide(state: PartitionState, *args: Any, **options: Any) -> PartitionState | None:
        decided = decide_leader(state, *args, **options)
        if decided is None or state.leader_epoch < 0:
            return decided
        return decided._replace(leader_epoch=state.leader_epoch)

    return mock.patch.object(elections, "decide_leader", decide)


def elect_whoever_lives() -> Broken:
    """Unclean elections where nobody asked for them."""
    return mock.patch.object(elections, "_allows_unclean", lambda state, topic: True)


def empty_the_isr() -> Broken:
    """The last in-sync replica is removed when it dies."""

    def decide(state: PartitionState, live: Any, *args: Any, **options: Any) -> Any:
        decided = decide_leader(state, live, *args, **options)
        if decided is None or decided.leader != NO_LEADER:
            return decided
        return decided._replace(isr=tuple(r for r in decided.isr if r in live))

    return mock.patch.object(elections, "decide_leader", decide)


def finish_a_move_at_once() -> Broken:
    """The replicas that go are deleted before the ones that come have anything."""
    return mock.patch.object(reassignments, "is_done", lambda partition, reassignment, live: True)


def never_delete_what_was_moved() -> Broken:
    """The replicas that went stay where they were."""
    return mock.patch.object(ReplicaSet, "_drop_moved", lambda self, topic, index: None)


def never_tell_a_leader_that_it_was_refused() -> Broken:
    """The answer to a proposal that is refused cannot be sent."""

    def fields(results: Any) -> Any:
        raise_for = [each for each in results if each.state is None]
        assert not raise_for, "a field has no value"
        return response_fields(results)

    return mock.patch.object(isr_messages, "response_fields", fields)


def leave_former_topics_in_the_way() -> Broken:
    """What is left of a topic stays where the one of the same name has to be."""
    return mock.patch.object(ReplicaSet, "_set_former_aside", lambda self, topic: None)


def take_former_topics_for_living_ones() -> Broken:
    """A log is whose name it has, whatever partition.metadata says."""

    def adopt(self: ReplicaSet, topic: Any) -> None:
        for index in self._directories.partitions_of(topic.name):
            log = self._directories.get(topic.name, index)
            if log is not None:
                log.state.topic_id = topic.topic_id
            partition = self.get(topic.name, index)
            if partition is not None:
                partition.topic_id = topic.topic_id

    return mock.patch.object(ReplicaSet, "_set_former_aside", adopt)


def take_a_copy_for_flushed() -> Broken:
    """A replica goes to another log directory before it is on the disk there."""

    async def pretend(self: LogDirMoves, log: PartitionLog, home: LogDirectory) -> None:
        ticket = log.flusher.begin_full_flush()
        ticket.mark_done()
        log.flusher.complete_flush(ticket)

    return mock.patch.object(LogDirMoves, "_flush", pretend)


def forget_the_producers() -> Broken:
    """What a producer repeats is appended again."""
    return mock.patch.object(ProducerState, "check", lambda self, header: None)


class Variant(NamedTuple):
    """A broken broker, and a seed that notices."""

    broken: Callable[[], Broken]
    noticed_at: int


VARIANTS: Final[Mapping[str, Variant]] = {
    variant.broken.__name__: variant
    for variant in (
        Variant(acknowledge_before_replicating, 0),
        Variant(forget_min_insync_replicas, 8),
        Variant(take_a_proposal_for_decided, 35),
        Variant(forget_the_replicas_that_join, 267),
        Variant(never_truncate, 10),
        Variant(truncate_to_the_high_watermark, 44),
        Variant(take_the_log_for_committed_when_elected, 35),
        Variant(acknowledge_when_leadership_ends, 8),
        Variant(serve_followers_of_any_epoch, 32),
        Variant(count_what_a_follower_has_not_flushed, 0),
        Variant(count_what_the_leader_has_not_flushed, 14),
        Variant(let_replicas_join_early, 14),
        Variant(believe_any_proposal, 100),
        Variant(skip_the_fence_of_the_controller, 325),
        Variant(keep_the_leader_epoch, 1),
        Variant(elect_whoever_lives, 119),
        Variant(empty_the_isr, 28),
        Variant(finish_a_move_at_once, 58),
        Variant(never_delete_what_was_moved, 6),
        Variant(never_tell_a_leader_that_it_was_refused, 39),
        Variant(take_a_copy_for_flushed, 1),
        Variant(forget_the_producers, 4),
        Variant(leave_former_topics_in_the_way, 98),
        Variant(take_former_topics_for_living_ones, 328),
        Variant(answer_before_the_decision_is_written, 322),
        Variant(forget_what_was_decided, 109),
        Variant(mark_only_what_is_led_here, 9),
        Variant(never_time_transactions_out, 39),
        Variant(serve_producers_that_were_replaced, 19),
        Variant(end_transactions_of_any_epoch, 29),
        Variant(read_past_open_transactions, 39),
        Variant(show_new_leaders_readers_nothing, 9),
        Variant(show_what_was_aborted, 9),
        Variant(refuse_the_batch_to_begin_within, 142),
        Variant(delete_what_nobody_asked_for, 2),
        Variant(never_tell_followers_what_was_deleted, 2),
    )
}
