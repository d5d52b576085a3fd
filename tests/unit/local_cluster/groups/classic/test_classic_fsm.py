"""The transition table against the transitions that Kafka documents (ClassicGroupState.java)."""

from __future__ import annotations

import itertools

import pytest

from local_cluster.groups.classic.classic_fsm import (
    TRANSITIONS,
    GroupEvent,
    GroupState,
    can_rebalance,
    next_state,
)

E, P, C, S, D = (
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
)
VALID_PREVIOUS_STATES = {E: {P}, P: {S, C, E}, C: {P}, S: {C}, D: {S, P, C, E}}
"""As in Kafka, which also lets Dead follow Dead; no event here needs that."""


def test_the_edges_are_kafkas() -> None:
    edges = {(source, target) for (source, _), target in TRANSITIONS.items()}
    assert edges == {(s, t) for t, sources in VALID_PREVIOUS_STATES.items() for s in sources}


def test_every_pair_is_in_the_table_or_refused() -> None:
    for pair in itertools.product(GroupState, GroupEvent):
        if pair in TRANSITIONS:
            assert next_state(*pair) is TRANSITIONS[pair]
        else:
            with pytest.raises(AssertionError, match="no transition"):
                next_state(*pair)


def test_nothing_leaves_dead() -> None:
    assert not any(state is D for state, _ in TRANSITIONS)


def test_a_rebalance_starts_from_where_kafka_starts_one() -> None:
    assert {state for state in GroupState if can_rebalance(state)} == {E, C, S}
