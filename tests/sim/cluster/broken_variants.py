"""Deliberately broken brokers: each breaks one rule that a promise depends on.

The simulation must notice every one of them, or it proves nothing. To add one: a function that
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
from local_cluster.controller.decisions import elections, isr_changes, reassignments
from local_cluster.controller.decisions.elections import decide_leader
from local_cluster.controller.model import isr_proposals
from local_cluster.controller.model.cluster_image import NO_LEADER, PartitionState
from local_cluster.controller.model.isr_proposals import response_fields
from local_cluster.controller.zk.coordination import ANY_VERSION, SetPayload
from local_cluster.controller.zk.term import Term
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.state.producer_state import ProducerState
from local_cluster.replication.in_sync import UNKNOWN_OFFSET, InSyncReplicas
from local_cluster.replication.log_dir_moves import LogDirMoves
from local_cluster.replication.log_flushes import LogFlushes
from local_cluster.replication.partition import Partition
from local_cluster.replication.replica_set import ReplicaSet
from local_cluster.wire.errors import ErrorCode
from tests.sim.cluster.broken_log_starts import (
    delete_one_record_too_many,
    never_send_the_log_start_to_followers,
    refuse_the_batch_to_start_within,
)
from tests.sim.cluster.broken_transactions import (
    Broken,
    answer_before_the_decision_is_committed,
    end_transactions_of_any_epoch,
    forget_decided_transactions,
    never_time_transactions_out,
    read_past_open_transactions,
    send_markers_to_no_other_broker,
    serve_fenced_producers,
    show_aborted_records,
    starve_readers_of_new_leaders,
)
from tests.sim.cluster.scenarios import MEMBER_SEEDS
from tests.sim.members.broken_groups import (
    assign_nothing_beside_classic_members,
    forget_targets_of_replaced_static_members,
    forget_what_classic_members_hold,
    give_away_what_classic_members_revoke,
    give_partitions_that_are_held,
    leave_waiting_members_without_a_response,
    let_expelled_classic_members_in,
    never_ask_classic_members_to_rejoin,
    never_end_the_sessions_of_consumer_groups,
    take_commits_of_any_epoch,
)


def acknowledge_before_replicating() -> Broken:
    """The high watermark is the leader's own end offset."""
    return mock.patch.object(InSyncReplicas, "committed_offset", lambda self, own, *_, **__: own)


def forget_min_insync_replicas() -> Broken:
    """The high watermark moves below min.insync.replicas."""
    return mock.patch.object(InSyncReplicas, "is_under_min_isr", lambda self, least: False)


def use_a_proposed_isr() -> Broken:
    """The leader uses an ISR that it has only proposed."""
    decide = Partition.decide_isr

    def decide_and_believe(self: Partition) -> tuple[int, ...] | None:
        decided = decide(self)
        if decided is not None and self.in_sync is not None:
            self.in_sync.state = self.in_sync.state._replace(isr=decided)
        return decided

    return mock.patch.object(Partition, "decide_isr", decide_and_believe)


def never_truncate() -> Broken:
    """A former leader keeps records that were never committed."""
    return mock.patch.object(Partition, "find_divergence", lambda self, offset, epoch: None)


def truncate_to_the_high_watermark() -> Broken:
    """As Kafka before KIP-101: a follower truncates to a high watermark that is too old."""
    resign = Partition.resign

    def resign_and_cut(self: Partition, *args: Any) -> None:
        resign(self, *args)
        if self.high_watermark < self.log.log_end_offset:
            self.log.truncation.truncate_to(self.high_watermark, 0)

    stack = ExitStack()
    stack.enter_context(mock.patch.object(Partition, "resign", resign_and_cut))
    stack.enter_context(never_truncate())
    return stack


def count_unflushed_records_of_followers() -> Broken:
    """A follower fetches on before its records are on its disk."""
    return mock.patch.object(LogFlushes, "wait", lambda self: None)


def count_unflushed_records_of_the_leader() -> Broken:
    """The leader's page cache counts as its disk."""
    return mock.patch.object(
        LogFlushes, "durable_end_offset", property(lambda self: self.log.log_end_offset)
    )


def let_replicas_join_early() -> Broken:
    """A follower that is behind the high watermark may join the ISR."""

    def expand(self: InSyncReplicas, *_: object, **__: object) -> list[int]:
        if self.proposed_isr is not None:
            return []
        return [
            replica
            for replica, follower in self.followers.items()
            if replica not in self.state.isr and follower.log_end_offset >= 0
        ]

    return mock.patch.object(InSyncReplicas, "decide_expansion", expand)


def believe_any_proposal() -> Broken:
    """The controller writes the ISR that a deposed leader proposes (a stale znode)."""

    def decide(state: Any, partition: Any, broker_id: int, proposal: Any) -> Any:
        ids = tuple(replica for replica, _ in proposal.isr)
        return partition._replace(isr=ids, leader=broker_id)

    stack = ExitStack()
    replaced = {
        isr_changes.decide_isr: decide,
        isr_changes.check_broker_epoch: lambda state, broker_id, broker_epoch: None,
    }
    for module in (isr_changes, isr_writer, active_controller):
        for name, value in list(vars(module).items()):
            if callable(value) and value in replaced:
                stack.enter_context(mock.patch.object(module, name, replaced[value]))
    return stack


def skip_the_fence_of_the_controller() -> Broken:
    """A deposed controller continues to write, whatever versions the states have."""
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


def ignore_joining_replicas() -> Broken:
    """Only the written ISR counts, while an expanded one is in flight."""

    def committed(self: InSyncReplicas, own: int, _: Any, *, min_insync_replicas: int) -> int:
        if self.is_under_min_isr(min_insync_replicas):
            return UNKNOWN_OFFSET
        ends = [
            self.followers[replica].log_end_offset
            for replica in self.state.isr
            if replica in self.followers
        ]
        return min([own, *ends])

    return mock.patch.object(InSyncReplicas, "committed_offset", committed)


def commit_the_log_when_elected() -> Broken:
    """A new leader shows records that its followers do not have."""
    become_leader = Partition.become_leader

    def become_and_commit(self: Partition, *args: Any) -> None:
        began = not self.is_leader
        become_leader(self, *args)
        if began:
            self._high_watermark = self.log.log_end_offset

    return mock.patch.object(Partition, "become_leader", become_and_commit)


def acknowledge_when_leadership_ends() -> Broken:
    """Requests that wait for the commit are answered as if it had happened."""

    return mock.patch.object(
        Partition,
        "fail_delayed",
        lambda self, code: self._purgatory.fail_produces(ErrorCode.none),
    )


def serve_followers_of_any_epoch() -> Broken:
    """A leader counts the fetches of followers in another epoch."""
    return mock.patch.object(Partition, "require_epoch", lambda self, epoch: None)


def keep_the_leader_epoch() -> Broken:
    """A new leader has the epoch of the one before."""

    def decide(state: PartitionState, *args: Any, **options: Any) -> PartitionState | None:
        decided = decide_leader(state, *args, **options)
        if decided is None or state.leader_epoch < 0:
            return decided
        return decided._replace(leader_epoch=state.leader_epoch)

    return mock.patch.object(elections, "decide_leader", decide)


def elect_any_live_replica() -> Broken:
    """Unclean elections in topics that do not allow them."""
    return mock.patch.object(elections, "_allows_unclean", lambda state, topic: True)


def empty_the_isr() -> Broken:
    """The last in-sync replica is removed when it dies."""

    def decide(state: PartitionState, live: Any, *args: Any, **options: Any) -> Any:
        decided = decide_leader(state, live, *args, **options)
        if decided is None or decided.leader != NO_LEADER:
            return decided
        return decided._replace(isr=tuple(r for r in decided.isr if r in live))

    return mock.patch.object(elections, "decide_leader", decide)


def complete_a_reassignment_at_once() -> Broken:
    """Removed replicas are deleted before the added ones are in sync."""
    return mock.patch.object(
        reassignments, "is_complete", lambda partition, reassignment, live: True
    )


def never_delete_reassigned_replicas() -> Broken:
    """Replicas that were reassigned away are never deleted."""
    return mock.patch.object(ReplicaSet, "_delete_moved", lambda self, topic, index: None)


def never_answer_a_refused_proposal() -> Broken:
    """The response to a refused proposal cannot be sent."""

    def fields(results: Any) -> Any:
        raise_for = [each for each in results if each.state is None]
        assert not raise_for, "a field has no value"
        return response_fields(results)

    return mock.patch.object(isr_proposals, "response_fields", fields)


def leave_logs_of_deleted_topics_in_place() -> Broken:
    """The log of a deleted topic stays in the directory of the re-created one."""
    return mock.patch.object(ReplicaSet, "_set_former_aside", lambda self, topic: None)


def adopt_logs_of_deleted_topics() -> Broken:
    """A log belongs to the topic of its name, whatever partition.metadata says."""

    def adopt(self: ReplicaSet, topic: Any) -> None:
        for index in self._directories.partitions_of(topic.name):
            log = self._directories.get(topic.name, index)
            if log is not None:
                log.state.topic_id = topic.topic_id
            partition = self.get(topic.name, index)
            if partition is not None:
                partition.topic_id = topic.topic_id

    return mock.patch.object(ReplicaSet, "_set_former_aside", adopt)


def skip_the_flush_of_a_copy() -> Broken:
    """A replica moves to another log directory before it is on the disk there."""

    async def pretend(self: LogDirMoves, log: PartitionLog, home: LogDirectory) -> None:
        ticket = log.flusher.begin_full_flush()
        ticket.mark_done()
        log.flusher.complete_flush(ticket)

    return mock.patch.object(LogDirMoves, "_flush", pretend)


def forget_the_producers() -> Broken:
    """The retry of a batch is appended again."""
    return mock.patch.object(ProducerState, "check", lambda self, header: None)


class Variant(NamedTuple):
    """A broken broker, and a seed that notices."""

    broken: Callable[[], Broken]
    noticed_at: int
    step: int = 1
    """Between two seeds that may notice it: 1, or the seeds of one scenario only."""


VARIANTS: Final[Mapping[str, Variant]] = {
    variant.broken.__name__: variant
    for variant in (
        Variant(acknowledge_before_replicating, 0),
        Variant(forget_min_insync_replicas, 9),
        Variant(use_a_proposed_isr, 142),
        Variant(ignore_joining_replicas, 371),
        Variant(never_truncate, 14),
        Variant(truncate_to_the_high_watermark, 85),
        Variant(commit_the_log_when_elected, 41),
        Variant(acknowledge_when_leadership_ends, 28),
        Variant(serve_followers_of_any_epoch, 871),
        Variant(count_unflushed_records_of_followers, 0),
        Variant(count_unflushed_records_of_the_leader, 18),
        Variant(let_replicas_join_early, 359),
        Variant(believe_any_proposal, 405),
        Variant(skip_the_fence_of_the_controller, 360),
        Variant(keep_the_leader_epoch, 1),
        Variant(elect_any_live_replica, 122),
        Variant(empty_the_isr, 44),
        Variant(complete_a_reassignment_at_once, 212),
        Variant(never_delete_reassigned_replicas, 9),
        Variant(never_answer_a_refused_proposal, 40),
        Variant(skip_the_flush_of_a_copy, 111),
        Variant(forget_the_producers, 4),
        Variant(leave_logs_of_deleted_topics_in_place, 118),
        Variant(adopt_logs_of_deleted_topics, 328),
        Variant(answer_before_the_decision_is_committed, 699),
        Variant(forget_decided_transactions, 179),
        Variant(send_markers_to_no_other_broker, 9),
        Variant(never_time_transactions_out, 69),
        Variant(serve_fenced_producers, 29),
        Variant(end_transactions_of_any_epoch, 119),
        Variant(read_past_open_transactions, 39),
        Variant(starve_readers_of_new_leaders, 9),
        Variant(show_aborted_records, 9),
        Variant(refuse_the_batch_to_start_within, 155),
        Variant(delete_one_record_too_many, 6),
        Variant(never_send_the_log_start_to_followers, 6),
        Variant(give_partitions_that_are_held, 12, MEMBER_SEEDS),
        Variant(forget_what_classic_members_hold, 162, MEMBER_SEEDS),
        Variant(give_away_what_classic_members_revoke, 3412, MEMBER_SEEDS),
        Variant(let_expelled_classic_members_in, 4012, MEMBER_SEEDS),
        Variant(never_ask_classic_members_to_rejoin, 12, MEMBER_SEEDS),
        Variant(leave_waiting_members_without_a_response, 362, MEMBER_SEEDS),
        Variant(assign_nothing_beside_classic_members, 12, MEMBER_SEEDS),
        Variant(take_commits_of_any_epoch, 3412, MEMBER_SEEDS),
        Variant(never_end_the_sessions_of_consumer_groups, 62, MEMBER_SEEDS),
        Variant(forget_targets_of_replaced_static_members, 112, MEMBER_SEEDS),
    )
}
