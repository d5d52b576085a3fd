"""Who owns which partition of a classic consumer group: nobody owns one that another owns. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from tests.nemesis.checkers.findings import Findings

Partition = tuple[str, int]


def owned(assignment: bytes) -> list[Partition]:
    """What a member of protocol type "consumer" was assigned, as often as it is named.

    The bytes are Kafka's ConsumerProtocolAssignment, any version: an int16, then
    [topic [partition]] with int16 and int32 lengths; what follows is the assignor's own. Empty
    bytes assign nothing. Raises struct.error where they end too early.
    """
    if not assignment:
        return []
    found: list[Partition] = []
    _, topics = struct.unpack_from(">hi", assignment)
    at = 6
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", assignment, at)
        at += 2
        topic = assignment[at : at + length].decode()
        at += length
        (count,) = struct.unpack_from(">i", assignment, at)
        at += 4
        found += [(topic, index) for index in struct.unpack_from(f">{count}i", assignment, at)]
        at += 4 * count
    return found


def check_ownership(group: str, answers: Iterable[Mapping[str, Iterable[Partition]]]) -> Findings:
    """`answers`: member -> what it owns; each answer is of one generation. Anomaly: owned-twice."""
    findings = Findings()
    for answer in answers:
        findings.checked["assignments"] += 1
        owners: dict[Partition, str] = {}
        for member, partitions in answer.items():
            for at in partitions:
                if at in owners:
                    findings.add(
                        "owned-twice",
                        f"{group}: {at[0]}-{at[1]} by {owners[at]} and {member}",
                    )
                owners[at] = member
    return findings
