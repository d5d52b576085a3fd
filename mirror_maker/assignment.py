"""Which worker copies which partitions: balanced and sticky. Pure.

Workers share the flows of a target by the group protocol. Each tells what it has; the leader
gives out everything, moving as little as possible. Two workers may hold the same flow for a
moment: the conditional append makes that safe, only wasteful.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from .formats.workers import WorkerAddress, address_of, decode_document, encode_document

PROTOCOL_NAME: Final = "sticky"


class FlowName(NamedTuple):
    """A source partition of a link, by name."""

    link: str
    topic: str
    partition: int


class Subscription(NamedTuple):
    """What a worker says when it joins."""

    owned: frozenset[FlowName]
    known: frozenset[FlowName]
    """Every flow that it has discovered; the leader gives out the union."""
    attempt: int = 0
    """Grows with each join of a process: the coordinator starts a rebalance for a member that
    joins again only where something in its subscription has changed."""
    address: WorkerAddress | None = None
    """Where its status is served, for whoever describes the group."""


class Assignment(NamedTuple):
    """What a worker gets."""

    flows: frozenset[FlowName]
    known_digest: int
    """Of everything that was given out, to all workers."""


def assign_sticky(members: Mapping[str, Subscription]) -> dict[str, set[FlowName]]:
    """Give every known flow to one member; loads differ by one at most, moves are few.

    Deterministic in its input.
    """
    flows = sorted({flow for member in members.values() for flow in member.known})
    names = sorted(members)
    if not names:
        return {}
    share, larger_count = divmod(len(flows), len(names))
    assigned: dict[str, set[FlowName]] = {name: set() for name in names}
    free = set(flows)
    # Those who have most keep the larger shares, so that fewest flows move.
    ranked = sorted(names, key=lambda name: (-len(members[name].owned), name))
    for name in ranked:
        for flow in sorted(members[name].owned):
            if flow in free and len(assigned[name]) < share + (larger_count > 0):
                if len(assigned[name]) == share:
                    larger_count -= 1
                assigned[name].add(flow)
                free.discard(flow)
    remaining = iter(sorted(free))
    for limit in (share, share + 1):
        for name in names:
            while len(assigned[name]) < limit:
                flow_or_none = next(remaining, None)
                if flow_or_none is None:
                    return assigned
                assigned[name].add(flow_or_none)
    return assigned


def digest(flows: Iterable[FlowName]) -> int:
    """A number that tells sets of flows apart."""
    return zlib.crc32(encode_document(_nested(flows)))


def encode_assignment(assignment: Assignment) -> bytes:
    """The version byte, then JSON {"flows": {link: {topic: [partition, ...]}}, "known": digest}."""
    return encode_document({"flows": _nested(assignment.flows), "known": assignment.known_digest})


def decode_assignment(encoded: bytes) -> Assignment:
    """Read an assignment; empty bytes assign nothing. Raises ValueError."""
    if not encoded:
        return Assignment(frozenset(), 0)
    document = decode_document(encoded)
    return Assignment(frozenset(_flat(document["flows"])), int(document["known"]))


def encode_subscription(subscription: Subscription) -> bytes:
    """What a member sends when it joins."""
    address = subscription.address
    return encode_document(
        {
            "http": None if address is None else address._asdict(),
            "owned": _nested(subscription.owned),
            "known": _nested(subscription.known),
            "attempt": subscription.attempt,
        }
    )


def decode_subscription(encoded: bytes) -> Subscription:
    """Read what a member sent. Raises ValueError."""
    document = decode_document(encoded)
    return Subscription(
        frozenset(_flat(document["owned"])),
        frozenset(_flat(document["known"])),
        int(document["attempt"]),
        address_of(document),
    )


def assign(subscriptions: Sequence[tuple[str, bytes]]) -> dict[str, bytes]:
    """The leader's step, from (member id, subscription) to assignments. Raises ValueError."""
    members = {name: decode_subscription(encoded) for name, encoded in subscriptions}
    known = digest({flow for member in members.values() for flow in member.known})
    return {
        name: encode_assignment(Assignment(frozenset(flows), known))
        for name, flows in assign_sticky(members).items()
    }


Nested = dict[str, dict[str, list[int]]]


def _nested(flows: Iterable[FlowName]) -> Nested:
    nested: Nested = {}
    for flow in sorted(flows):
        nested.setdefault(flow.link, {}).setdefault(flow.topic, []).append(flow.partition)
    return nested


def _flat(nested: Nested) -> Iterable[FlowName]:
    for link, topics in nested.items():
        for topic, partitions in topics.items():
            for partition in partitions:
                yield FlowName(link, topic, partition)
