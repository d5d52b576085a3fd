"""The table of docs/operations/rights.md, parsed and turned into ACLs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from mirror_maker.formats.probe import probe_topic_name
from mirror_maker.formats.workers import workers_group_id

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "operations" / "rights.md"
TABLE_HEAD: Final = "| where | on | operations |"
READER, WRITER = "reader", "writer"
"""The mirror's principals at the source and at the target."""
USERS: Final = {"source": READER, "target": WRITER}
KAFKA_CLUSTER: Final = "kafka-cluster"
"""The cluster's name in ACLs."""
_SENTENCE: Final = re.compile(
    r"User:(?P<user>\w+) may not (?P<operation>[A-Z_]+) (?:(?P<kind>topic|group) (?P<name>\S+)"
    r"|(?P<whole>any topic|the cluster)) at \w+"
)


class Resource(NamedTuple):
    """The resource of an ACL."""

    kind: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL

    def covers(self, kind: ResourceType, name: str) -> bool:
        is_prefix = self.pattern is PatternType.PREFIXED
        return self.kind is kind and (
            name.startswith(self.name) if is_prefix else name == self.name
        )


class TableRow(NamedTuple):
    """A row of the table."""

    where: str
    on: str
    operations: frozenset[AclOperation]

    @property
    def side(self) -> str:
        return self.where.split(",")[0]


class Refusal(NamedTuple):
    """A parsed sentence of the mirror."""

    side: str
    operation: AclOperation
    kind: ResourceType
    name: str


def read_table() -> list[TableRow]:
    """Return the rows of the table."""
    lines = DOCUMENT.read_text().splitlines()
    start = lines.index(TABLE_HEAD) + 2
    rows = []
    for line in lines[start : lines.index("", start)]:
        where, on, operations = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append(
            TableRow(where, on, frozenset(AclOperation[name] for name in operations.split(", ")))
        )
    return rows


def resources_of(
    row: TableRow,
    *,
    target_alias: str,
    source_aliases: Sequence[str],
    topics: Iterable[str],
    copies: Iterable[str],
    group: str,
    source_group: str,
    probed_link: str,
) -> list[Resource]:
    """Return a row's resources for a mirror that copies these topics; KeyError for a new row."""
    by_prefix = PatternType.PREFIXED

    def topic(name: str) -> Resource:
        return Resource(ResourceType.TOPIC, name)

    def of_each_source(name: str) -> list[Resource]:
        return [topic(name.replace("<source alias>", alias)) for alias in source_aliases]

    groups_on = "group `heliograph-mirror-<target alias>`"
    checkpoints = "<source alias>.checkpoints.internal"
    syncs_there, syncs_here = (
        f"mm2-offset-syncs.<{x} alias>.internal" for x in ("target", "source")
    )
    offsets = "mm2-offsets.<source alias>.internal"
    return {
        "topics that are copied": list(map(topic, topics)),
        "topics with prefix `heliograph-offset-map.`": [
            Resource(ResourceType.TOPIC, "heliograph-offset-map.", by_prefix)
        ],
        "topics with prefix `heliograph-rights.`": [
            Resource(ResourceType.TOPIC, "heliograph-rights.", by_prefix)
        ],
        "topics with prefix `heliograph-`": [
            Resource(ResourceType.TOPIC, "heliograph-", by_prefix)
        ],
        "`heliograph-probe.<link>.internal`": [topic(probe_topic_name(probed_link))],
        "the copies": list(map(topic, copies)),
        "groups that are synced": [Resource(ResourceType.GROUP, group)],
        "that group": [Resource(ResourceType.GROUP, source_group)],
        groups_on: [Resource(ResourceType.GROUP, workers_group_id(target_alias))],
        "`heartbeats`": [topic("heartbeats")],
        f"`heartbeats`, `{checkpoints}`": [topic("heartbeats"), *of_each_source(checkpoints)],
        f"`{syncs_there}`": [topic(syncs_there.replace("<target alias>", target_alias))],
        f"`{syncs_here}`": of_each_source(syncs_here),
        f"`{offsets}`": of_each_source(offsets),
        "the cluster": [Resource(ResourceType.CLUSTER, KAFKA_CLUSTER)],
    }[row.on]


def acl_of(user: str, resource: Resource, operation: AclOperation) -> Acl:
    """Return the ACL that allows it."""
    return Acl(
        resource.kind,
        resource.name,
        resource.pattern,
        f"User:{user}",
        "*",
        operation,
        Permission.ALLOW,
    )


def implied_by(operations: Iterable[AclOperation]) -> frozenset[AclOperation]:
    """Return these operations and those that they imply in Kafka's authorizers."""
    found = set(operations)
    if found & {AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER, AclOperation.DELETE}:
        found.add(AclOperation.DESCRIBE)
    if AclOperation.ALTER_CONFIGS in found:
        found.add(AclOperation.DESCRIBE_CONFIGS)
    return frozenset(found)


def understand(sentence: str) -> Refusal:
    """Parse a sentence of `rights_missing`."""
    found = _SENTENCE.fullmatch(sentence)
    assert found is not None, sentence
    side = next(side for side, user in USERS.items() if user == found["user"])
    operation = AclOperation[found["operation"]]
    if found["whole"] == "the cluster":
        return Refusal(side, operation, ResourceType.CLUSTER, KAFKA_CLUSTER)
    if found["whole"] == "any topic":
        # The first topic that the mirror writes into is one of its own state.
        return Refusal(side, operation, ResourceType.TOPIC, "heliograph-")
    return Refusal(side, operation, ResourceType[found["kind"].upper()], found["name"])
