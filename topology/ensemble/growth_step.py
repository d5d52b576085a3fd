"""The next step of an ensemble to the members of the topology file. Pure.

    members of the ensemble       every node of the file serves   step
    those of the file             -                               Done
    one that the file lacks       -                               Refuse
    fewer than those of the file  no                              Wait
    fewer than those of the file  yes                             Reconfigure

All new nodes become members in one step, and only when each of them has the data of the ensemble
and serves clients. An ensemble of two, which one by one would pass through, stops without either
node. A new ensemble is weighted (members.py); the same step gives it equal weights.

A step is made from a version. ZooKeeper refuses it if the members have changed since. So hosts that
decide at the same time, and an `up` that repeats a step whose answer was lost, do no harm.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from topology.ensemble.members import Membership


@dataclass(frozen=True, slots=True)
class Done:
    """The members are those of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Nothing leads from these members to those of the file."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Wait for these nodes, by number; for the ensemble itself if there are none."""

    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfigure:
    """Make these the members, if the configuration still has this version."""

    members: Membership
    from_version: int


Step = Done | Refuse | Wait | Reconfigure


def decide(wanted: Mapping[int, str], now: Membership | None, serving: Collection[int]) -> Step:
    """Return the next step.

    `wanted` has the addresses of the file's nodes, `now` is the configuration of the ensemble; None
    if no node says it. `serving` are the nodes that serve clients.
    """
    if now is None:
        return Wait()
    lacking = sorted(set(now.members) - set(wanted))
    if lacking:
        numbers = ", ".join(map(str, lacking))
        return Refuse(reason=f"the ensemble has node {numbers}, and the file does not")
    if set(now.members) == set(wanted) and not now.is_weighted:
        return Done()
    silent = tuple(sorted(set(wanted) - set(serving)))
    if silent:
        return Wait(nodes=silent)
    return Reconfigure(members=Membership(members=wanted), from_version=now.version)
