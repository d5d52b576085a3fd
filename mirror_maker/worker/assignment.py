"""Which worker copies which partitions: a balanced, sticky assignment. Pure.

Workers share the flows of a target through the group protocol. Each member reports what it owns;
the leader assigns everything and moves as little as possible. A flow goes only to a worker that has
its link, because workers run with different settings while links are added or removed. Two workers
may own the same flow for a moment. The conditional append makes that safe, only wasteful.
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from mirror_maker.formats.workers import WorkerAddress, address_of, decode_document, encode_document

PROTOCOL_NAME: Final = "sticky"


class FlowName(NamedTuple):
    """A source partition of a link, by name."""

    link: str
    topic: str
    partition: int


class Subscription(NamedTuple):
    """What a member sends when it joins."""

    owned: frozenset[FlowName]
    known: frozenset[FlowName]
    """Every flow that the member has discovered; the leader assigns the union."""
    attempt: int = 0
    """Grows with each join of a process. When a member joins again, the coordinator starts a
    rebalance only if its subscription has changed."""
    address: WorkerAddress | None = None
    """Where the worker serves its status, for clients that describe the group."""
    links: frozenset[str] | None = None
    """The links of the worker; None (an older version) means all links."""

    def has(self, link: str) -> bool:
        """Return whether the worker can copy flows of this link."""
        return self.links is None or link in self.links


class Assignment(NamedTuple):
    """What a member is assigned."""

    flows: frozenset[FlowName]
    known_digest: int
    """Digest of all flows assigned to all workers."""


def assign_sticky(members: Mapping[str, Subscription]) -> dict[str, set[FlowName]]:
    """Assign every known flow to one member that has its link, with few moves.

    Loads differ by at most one if every member has every link, otherwise by as little as possible.
    A flow whose link no member has is assigned to nobody. The result depends only on the input.
    """
    assigned: dict[str, set[FlowName]] = {name: set() for name in sorted(members)}
    shared: dict[tuple[str, ...], list[FlowName]] = {}
    able: dict[str, tuple[str, ...]] = {}
    for flow in sorted({flow for member in members.values() for flow in member.known}):
        if flow.link not in able:
            able[flow.link] = tuple(name for name in assigned if members[name].has(flow.link))
        shared.setdefault(able[flow.link], []).append(flow)
    # Flows that few members can have go first; the other flows then even out the loads.
    for names in sorted(shared, key=lambda names: (len(names), names)):
        if names:
            _share(shared[names], names, members, assigned)
    return assigned


def _share(
    flows: Sequence[FlowName],
    names: Sequence[str],
    members: Mapping[str, Subscription],
    assigned: dict[str, set[FlowName]],
) -> None:
    """Assign each of these flows to one of these members, filling up from the lowest load."""
    free = set(flows)
    owned = {name: sorted(members[name].owned & free) for name in names}
    # The members with most flows get the larger shares, so fewest flows move.
    loads = [(len(assigned[name]), -len(assigned[name]) - len(owned[name]), name) for name in names]
    heapq.heapify(loads)
    limits = {name: len(assigned[name]) for name in names}
    for _ in flows:
        load, rank, name = loads[0]
        heapq.heapreplace(loads, (load + 1, rank, name))
        limits[name] += 1
    for name in sorted(names, key=lambda name: (-len(assigned[name]) - len(owned[name]), name)):
        for flow in owned[name]:
            if flow in free and len(assigned[name]) < limits[name]:
                assigned[name].add(flow)
                free.discard(flow)
    remaining = iter(sorted(free))
    for name in names:
        assigned[name].update(islice(remaining, limits[name] - len(assigned[name])))


def digest(flows: Iterable[FlowName]) -> int:
    """Return a checksum of a set of flows."""
    return zlib.crc32(encode_document(_nested(flows)))


def encode_assignment(assignment: Assignment) -> bytes:
    """Encode the version byte, then JSON {"flows": {link: {topic: [partition, ...]}}, "known":
    digest}.
    """
    return encode_document({"flows": _nested(assignment.flows), "known": assignment.known_digest})


def decode_assignment(encoded: bytes) -> Assignment:
    """Decode an assignment; empty bytes assign nothing. Raises ValueError."""
    if not encoded:
        return Assignment(frozenset(), 0)
    document = decode_document(encoded)
    return Assignment(frozenset(_flat(document["flows"])), int(document["known"]))


def encode_subscription(subscription: Subscription) -> bytes:
    """Encode what a member sends when it joins."""
    address = subscription.address
    return encode_document(
        {
            "http": None if address is None else address._asdict(),
            "owned": _nested(subscription.owned),
            "known": _nested(subscription.known),
            "attempt": subscription.attempt,
            "links": None if subscription.links is None else sorted(subscription.links),
        }
    )


def decode_subscription(encoded: bytes) -> Subscription:
    """Decode what a member sent. Raises ValueError."""
    document = decode_document(encoded)
    links = document.get("links")
    return Subscription(
        frozenset(_flat(document["owned"])),
        frozenset(_flat(document["known"])),
        int(document["attempt"]),
        address_of(document),
        None if links is None else frozenset(map(str, links)),
    )


def assign(subscriptions: Sequence[tuple[str, bytes]]) -> dict[str, bytes]:
    """Do the leader's step: from (member id, subscription) to assignments. Raises ValueError."""
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
