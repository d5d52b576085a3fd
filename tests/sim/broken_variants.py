"""Deliberately broken brokers: each breaks one rule that a promise hangs on.

The simulation must notice every one of them, else it proves nothing. To add one: a function that
patches the rule away, and its line in VARIANTS.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final
from unittest import mock

from local_cluster.controller import active_controller, isr_requests
from local_cluster.controller.coordination import ANY_VERSION, SetPayload
from local_cluster.controller.state_writer import StateWriter
from local_cluster.controller.term import Term
from local_cluster.replication.in_sync import InSyncReplicas
from local_cluster.replication.partition import Partition

Broken = AbstractContextManager[Any]


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
            self.log.truncate_to(self.high_watermark, 0)

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

    def joining(self: InSyncReplicas, high_watermark: int, epochs: Mapping[int, int]) -> list[int]:
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
    for module in (isr_requests, active_controller):
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


VARIANTS: Final[Mapping[str, Callable[[], Broken]]] = {
    function.__name__: function
    for function in (
        acknowledge_before_replicating,
        forget_min_insync_replicas,
        take_a_proposal_for_decided,
        never_truncate,
        truncate_to_the_high_watermark,
        count_what_a_follower_has_not_flushed,
        count_what_the_leader_has_not_flushed,
        let_replicas_join_early,
        believe_any_proposal,
        skip_the_fence_of_the_controller,
    )
}
