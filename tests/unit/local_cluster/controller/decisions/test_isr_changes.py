"""ISR changes that a leader proposes, accepted or refused."""

from __future__ import annotations

from typing import Any

import pytest

from local_cluster.controller.decisions.isr_changes import check_broker_epoch, decide_isr
from local_cluster.controller.model.cluster_state import ClusterState
from local_cluster.controller.model.isr_proposals import IsrProposal
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.samples import brokers, partition, topic, topic_id

KNOWN = partition(0, 1, 2, 3, epoch=5, isr=(1, 2), version=7)
STATE = ClusterState(brokers(1, 2, 3, 4), {"a": topic("a", KNOWN)})
GOOD: dict[str, Any] = {
    "topic_id": topic_id("a"),
    "partition": 0,
    "leader_epoch": 5,
    "isr": ((1, 10), (2, 20), (3, 30)),
    "zk_version": 7,
}


def decide(leader: int = 1, state: ClusterState = STATE, **fields: Any) -> tuple[int, ...]:
    return decide_isr(state, KNOWN, leader, IsrProposal(**{**GOOD, **fields})).isr


def test_an_accepted_proposal_keeps_version_and_epoch() -> None:
    decided = decide_isr(STATE, KNOWN, 1, IsrProposal(**GOOD))
    assert decided == KNOWN._replace(isr=(1, 2, 3))
    assert decide(isr=((1, 10),)) == (1,)


def test_an_unknown_broker_epoch_is_not_checked() -> None:
    assert decide(isr=((1, -1), (3, -1))) == (1, 3)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"leader_epoch": 4}, ErrorCode.fenced_leader_epoch),
        ({"leader_epoch": 6}, ErrorCode.not_controller),
        ({"leader": 2}, ErrorCode.invalid_request),
        ({"zk_version": 6}, ErrorCode.invalid_update_version),
        ({"zk_version": 8}, ErrorCode.not_controller),
        ({"isr": ((2, 20),)}, ErrorCode.invalid_request),
        ({"isr": ((1, 10), (4, 40))}, ErrorCode.invalid_request),
        ({"isr": ((1, 10), (1, 10))}, ErrorCode.invalid_request),
        ({"isr": ((1, 10), (3, 29))}, ErrorCode.ineligible_replica),
    ],
)
def test_refusals(fields: dict[str, Any], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        decide(**fields)
    assert refused.value.code is code


def test_a_dead_or_shutting_down_broker_does_not_join_but_may_stay() -> None:
    for state in (
        ClusterState(brokers(1, 2), STATE.topics),
        ClusterState(brokers(1, 2, 3), STATE.topics, shutting_down=frozenset({3})),
    ):
        with pytest.raises(KafkaError) as refused:
            decide(state=state)
        assert refused.value.code is ErrorCode.ineligible_replica
    dead = ClusterState(brokers(1, 3), STATE.topics)
    assert decide(state=dead, isr=((1, 10), (2, 20))) == (1, 2)


def test_an_old_broker_epoch_proposes_nothing() -> None:
    check_broker_epoch(STATE, 1, 10)
    for broker_id, epoch in ((1, 9), (1, 11), (9, 90)):
        with pytest.raises(KafkaError) as refused:
            check_broker_epoch(STATE, broker_id, epoch)
        assert refused.value.code is ErrorCode.stale_broker_epoch
