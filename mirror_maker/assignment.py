"""Which worker copies which partitions: balanced and sticky. Pure.

Workers share the flows of a target by the group protocol. Each tells what it has; the leader
gives out everything, moving as little as possible. Two workers may hold the same flow for a
moment: the conditional append makes that safe, only wasteful.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

PROTOCOL_TYPE: Final = "heliograph-mirror"
PROTOCOL_NAME: Final = "sticky"
FORMAT_VERSION: Final = 1


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


class Assignment(NamedTuple):
    """What a worker gets."""

    flows: frozenset[FlowName]
    known_digest: int
    """Of everything that was given out, to all workers."""


def group_id(target_alias: str) -> str:
    """The group of a target's workers."""
    return f"heliograph-mirror-{target_alias}"


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
    return zlib.crc32(_dumps(_nested(flows)))


def encode_assignment(assignment: Assignment) -> bytes:
    """The version byte, then JSON {"flows": {link: {topic: [partition, ...]}}, "known": digest}."""
    return _dumps({"flows": _nested(assignment.flows), "known": assignment.known_digest})


def decode_assignment(encoded: bytes) -> Assignment:
    """Read an assignment; empty bytes assign nothing. Raises ValueError."""
    if not encoded:
        return Assignment(frozenset(), 0)
    document = _loads(encoded)
    return Assignment(frozenset(_flat(document["flows"])), int(document["known"]))


def encode_subscription(subscription: Subscription) -> bytes:
    """What a member sends when it joins."""
    return _dumps(
        {
            "owned": _nested(subscription.owned),
            "known": _nested(subscription.known),
            "attempt": subscription.attempt,
        }
    )


def decode_subscription(encoded: bytes) -> Subscription:
    """Read what a member sent. Raises ValueError."""
    document = _loads(encoded)
    return Subscription(
        frozenset(_flat(document["owned"])),
        frozenset(_flat(document["known"])),
        int(document["attempt"]),
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


def _dumps(document: object) -> bytes:
    return bytes((FORMAT_VERSION,)) + json.dumps(document, separators=(",", ":")).encode()


def _loads(encoded: bytes) -> dict[str, Any]:
    if encoded[:1] != bytes((FORMAT_VERSION,)):
        raise ValueError(f"format version {encoded[:1].hex()}, this worker knows {FORMAT_VERSION}")
    document = json.loads(encoded[1:])
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    return document
