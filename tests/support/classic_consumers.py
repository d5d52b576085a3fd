"""What classic consumers put into JoinGroup, and how their leader assigns. Pure.

Subscriptions are encoded as a Java consumer does (ConsumerProtocolSubscription v2). The assignor is
balanced and sticky. Of the cooperative protocol it moves only what its owner has released.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from local_cluster.groups.consumer.embedded_protocol import read_subscription
from local_cluster.wire.primitives import write_string

TopicPartition = tuple[str, int]


class Claim(NamedTuple):
    """What a member reports to own, and the generation in which it got it."""

    owned: frozenset[TopicPartition]
    generation: int


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return sorted indexes by topic name."""
    found: dict[str, list[int]] = {}
    for name, index in sorted(partitions):
        found.setdefault(name, []).append(index)
    return found


def encode_subscription(topics: Collection[str], claim: Claim) -> bytes:
    """Encode a subscription without user data, v2."""
    owned = by_topic(claim.owned)
    out = struct.pack(">hi", 2, len(topics))
    out += b"".join(write_string(name, flexible=False) for name in topics)
    out += struct.pack(">ii", -1, len(owned))
    for name, indexes in owned.items():
        out += write_string(name, flexible=False)
        out += struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
    return out + struct.pack(">i", claim.generation)


def decode_claim(subscription: bytes) -> Claim:
    """Read what `encode_subscription` wrote."""
    owned = read_subscription(subscription).owned
    (generation,) = struct.unpack_from(">i", subscription, len(subscription) - 4)
    return Claim(
        frozenset((name, index) for name, indexes in owned.items() for index in indexes),
        generation,
    )


def assign(
    claims: Mapping[str, Claim],
    partitions: Collection[TopicPartition],
    *,
    cooperative: bool,
) -> dict[str, set[TopicPartition]]:
    """Return the partitions of each member.

    If two members claim a partition, the claim of the newest generation counts; if both are of the
    same generation, none does.
    """
    valid = _valid_claims(claims, set(partitions))
    quota = -(-len(partitions) // len(claims))
    result = {member_id: set(sorted(valid.get(member_id, set()))[:quota]) for member_id in claims}
    taken = set().union(*result.values())
    claimed = set().union(*valid.values())
    for partition in sorted(set(partitions) - taken):
        if cooperative and partition in claimed:
            continue
        least = min(result, key=lambda member_id: (len(result[member_id]), member_id))
        result[least].add(partition)
    return result


def _valid_claims(
    claims: Mapping[str, Claim], partitions: set[TopicPartition]
) -> dict[str, set[TopicPartition]]:
    newest: dict[TopicPartition, int] = {}
    times: Counter[tuple[TopicPartition, int]] = Counter()
    for claim in claims.values():
        for partition in claim.owned & partitions:
            newest[partition] = max(newest.get(partition, -1), claim.generation)
            times[partition, claim.generation] += 1
    return {
        member_id: {
            partition
            for partition in claim.owned & partitions
            if newest[partition] == claim.generation and times[partition, claim.generation] == 1
        }
        for member_id, claim in claims.items()
    }
