"""The states of a classic group and the transitions between them.

    state                event                 next state
    Empty                rebalance             PreparingRebalance    the first member joins
    PreparingRebalance   generation_started    CompletingRebalance   all joined, or join deadline
    PreparingRebalance   members_gone          Empty                 no member is left
    CompletingRebalance  assigned              Stable                the leader has synced
    CompletingRebalance  rebalance             PreparingRebalance    a member joins, leaves, changes
    Stable               rebalance             PreparingRebalance    a member joins, leaves, changes
    any but Dead         removed               Dead                  deleted, expired or unloaded

Every change of a group's state goes through `next_state`; a pair outside the table is a bug of this
broker. States and their names are Kafka's (ClassicGroupState.java).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class GroupState(Enum):
    """The states, with the names that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupEvent(Enum):
    """The events that move a group from one state to another."""

    REBALANCE = "rebalance"
    GENERATION_STARTED = "generation_started"
    MEMBERS_GONE = "members_gone"
    ASSIGNED = "assigned"
    REMOVED = "removed"


TRANSITIONS: Final[Mapping[tuple[GroupState, GroupEvent], GroupState]] = MappingProxyType(
    {
        (GroupState.EMPTY, GroupEvent.REBALANCE): GroupState.PREPARING_REBALANCE,
        (
            GroupState.PREPARING_REBALANCE,
            GroupEvent.GENERATION_STARTED,
        ): GroupState.COMPLETING_REBALANCE,
        (GroupState.PREPARING_REBALANCE, GroupEvent.MEMBERS_GONE): GroupState.EMPTY,
        (GroupState.COMPLETING_REBALANCE, GroupEvent.ASSIGNED): GroupState.STABLE,
        (GroupState.COMPLETING_REBALANCE, GroupEvent.REBALANCE): GroupState.PREPARING_REBALANCE,
        (GroupState.STABLE, GroupEvent.REBALANCE): GroupState.PREPARING_REBALANCE,
        (GroupState.EMPTY, GroupEvent.REMOVED): GroupState.DEAD,
        (GroupState.PREPARING_REBALANCE, GroupEvent.REMOVED): GroupState.DEAD,
        (GroupState.COMPLETING_REBALANCE, GroupEvent.REMOVED): GroupState.DEAD,
        (GroupState.STABLE, GroupEvent.REMOVED): GroupState.DEAD,
    }
)


def next_state(state: GroupState, event: GroupEvent) -> GroupState:
    """Return the state after the event. Raises AssertionError for a pair outside the table."""
    target = TRANSITIONS.get((state, event))
    assert target is not None, f"no transition from {state.value} by {event.value}"
    return target


def can_rebalance(state: GroupState) -> bool:
    """Return whether a rebalance may start from this state."""
    return (state, GroupEvent.REBALANCE) in TRANSITIONS
