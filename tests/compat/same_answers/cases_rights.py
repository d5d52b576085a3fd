"""Who is denied what, and a request of every API that touches an allowed and a denied resource.

Without authentication everybody is User:ANONYMOUS, so each asker has an address of its own. All may
do everything from the administrators' address; each other address lacks one right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import TRANSACTIONAL_BIT
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.compat.same_answers.asking import UNKNOWN_ID, Ask, Side

ANYBODY: Final = "User:ANONYMOUS"
ADMINS_HOST: Final = "127.0.0.1"
MIXED: Final = "no"
"""The prefix of what the asker with mixed rights may not touch."""
RIGHTS: Final[Mapping[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.DESCRIBE, AclOperation.WRITE),
}
"""The operations that mean something on each resource."""


@dataclass(frozen=True)
class Asker:
    """An address, and what it may not do."""

    name: str
    host: str
    acls: tuple[Acl, ...]

    def __str__(self) -> str:
        return self.name


def _acl(
    kind: ResourceType,
    host: str,
    operation: AclOperation = AclOperation.ALL,
    permission: Permission = Permission.ALLOW,
) -> Acl:
    name = CLUSTER_NAME if kind == ResourceType.CLUSTER else "*"
    return Acl(kind, name, PatternType.LITERAL, ANYBODY, host, operation, permission)


def everything(host: str) -> tuple[Acl, ...]:
    """Return the ACLs that allow everything to an address."""
    return tuple(_acl(kind, host) for kind in RIGHTS)


def beside_the_cluster(host: str) -> tuple[Acl, ...]:
    """Return the ACLs that allow everything but what is of the cluster."""
    return tuple(_acl(kind, host) for kind in RIGHTS if kind != ResourceType.CLUSTER)


def askers() -> Iterator[Asker]:
    """Return one asker without rights, one who lacks each right, and one with mixed rights."""
    yield Asker("nothing", "127.0.1.1", ())
    number = 0
    for kind, operations in RIGHTS.items():
        for operation in operations:
            number += 1
            host = f"127.0.2.{number}"
            lacking = _acl(kind, host, operation, Permission.DENY)
            yield Asker(f"no {operation.name} on {kind.name}", host, (*everything(host), lacking))
    host = "127.0.3.1"
    denied = [
        _acl(kind, host, permission=Permission.DENY)._replace(
            resource_name=MIXED, pattern_type=PatternType.PREFIXED
        )
        for kind in RIGHTS
        if kind != ResourceType.CLUSTER
    ]
    yield Asker("mixed", host, (*beside_the_cluster(host), *denied))
    # Of the cluster nothing, of the rest everything, and the other way round.
    host = "127.0.3.2"
    yield Asker("no cluster", host, beside_the_cluster(host))
    host = "127.0.3.3"
    yield Asker("only the cluster", host, (_acl(ResourceType.CLUSTER, host),))
    # A right on the cluster stands for one on topics.
    for number, (of_cluster, of_topics) in enumerate(
        (
            (AclOperation.DELETE, AclOperation.DELETE),
            (AclOperation.CREATE, AclOperation.CREATE),
            (AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE),
            (AclOperation.IDEMPOTENT_WRITE, AclOperation.WRITE),
            (AclOperation.ALTER, AclOperation.ALTER),
        ),
        start=4,
    ):
        host = f"127.0.3.{number}"
        both = (
            _acl(ResourceType.CLUSTER, host, of_cluster, Permission.DENY),
            _acl(ResourceType.TOPIC, host, of_topics, Permission.DENY),
        )
        name = f"no {of_cluster.name} on CLUSTER, no {of_topics.name} on TOPIC"
        yield Asker(name, host, (*everything(host), *both))


@dataclass(frozen=True)
class Names:
    """The resources of one asker, which exist on both sides: one allowed, one denied if mixed."""

    number: int

    @property
    def topics(self) -> tuple[str, str]:
        return f"t{self.number}", f"{MIXED}t{self.number}"

    @property
    def groups(self) -> tuple[str, str]:
        return f"g{self.number}", f"{MIXED}g{self.number}"

    @property
    def transactional_ids(self) -> tuple[str, str]:
        return f"x{self.number}", f"{MIXED}x{self.number}"


Fields = Mapping[str, Any]
Build = Callable[[Names, Side], Iterator[Fields]]

EVERY_ACL: Final = {
    "resource_type_filter": 2,
    "resource_name_filter": "harmless",
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
HARMLESS_ACL: Final = {
    "resource_type": 2,
    "resource_name": "harmless",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
HARMLESS_QUOTA: Final = {
    "entries": [
        {
            "entity": [{"entity_type": "user", "entity_name": "harmless"}],
            "ops": [{"key": "producer_byte_rate", "value": 1e9, "remove": False}],
        }
    ],
    "validate_only": True,
}
NO_QUOTAS: Final = {"entries": [], "validate_only": True}
BATCH: Final = bytes(encode_batch([NewRecord(1_000, b"k", b"v")]))
TRANSACTIONAL_BATCH: Final = bytes(
    encode_batch(
        [NewRecord(1_000, b"k", b"v")],
        producer_id=4_242,
        producer_epoch=0,
        base_sequence=0,
        attributes=TRANSACTIONAL_BIT,
    )
)
_NOBODY: Final = {"producer_id": 4_242, "producer_epoch": 0}


def produce_transactional(names: Names, side: Side) -> Iterator[Fields]:
    """Yield requests with transactional batches, without and with a transactional id."""
    for transactional_id in (None, *names.transactional_ids):
        yield {
            "transactional_id": transactional_id,
            "acks": -1,
            "timeout": 10_000,
            "topic_data": _batches(names, side, TRANSACTIONAL_BATCH),
        }


def _batches(names: Names, side: Side, batch: bytes) -> list[Fields]:
    return [
        {
            "name": name,
            "topic_id": side.ids[name],
            "partition_data": [{"index": 0, "records": batch}],
        }
        for name in names.topics
    ]


def _produce(names: Names, side: Side) -> Iterator[Fields]:
    topics = _batches(names, side, BATCH)
    unknown = {
        "name": "unknown",
        "topic_id": UNKNOWN_ID,
        "partition_data": [{"index": 0, "records": BATCH}],
    }
    for transactional_id in (None, *names.transactional_ids):
        yield {
            "transactional_id": transactional_id,
            "acks": -1,
            "timeout": 10_000,
            "topic_data": [*topics, unknown],
        }


def _fetch(names: Names, side: Side) -> Iterator[Fields]:
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1,
    }
    for replica_id in (-1, 7):
        yield {
            "replica_id": replica_id,
            "replica_state": {"replica_id": replica_id, "replica_epoch": -1},
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": 0,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [
                {
                    "topic": name,
                    "topic_id": side.ids.get(name, UNKNOWN_ID),
                    "partitions": [partition],
                }
                for name in (*names.topics, "unknown")
            ],
            "forgotten_topics_data": [],
            "rack_id": "",
        }


def _list_offsets(names: Names, side: Side) -> Iterator[Fields]:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2}
    topics = [{"name": name, "partitions": [partition]} for name in (*names.topics, "unknown")]
    yield {"replica_id": -1, "isolation_level": 0, "topics": topics, "timeout": 10_000}


def _metadata(names: Names, side: Side) -> Iterator[Fields]:
    by_name = [{"name": name, "topic_id": None} for name in (*names.topics, "unknown")]
    for topics in (by_name, None):
        yield {
            "topics": topics,
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": True,
            "include_topic_authorized_operations": True,
        }


def _metadata_by_id(names: Names, side: Side) -> Iterator[Fields]:
    ids = [*(side.ids[name] for name in names.topics), UNKNOWN_ID]
    yield {
        "topics": [{"name": None, "topic_id": topic_id} for topic_id in ids],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": True,
    }


def _committed(names: Names, side: Side) -> list[Fields]:
    partition = {
        "partition_index": 0,
        "committed_offset": 1,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    return [
        {"name": name, "topic_id": side.ids.get(name, UNKNOWN_ID), "partitions": [partition]}
        for name in (*names.topics, "unknown")
    ]


def _offset_commit(names: Names, side: Side) -> Iterator[Fields]:
    for group in names.groups:
        yield {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "retention_time": -1,
            "topics": _committed(names, side),
        }


def _offset_fetch_one(names: Names, side: Side) -> Iterator[Fields]:
    asked = [{"name": name, "partition_indexes": [0]} for name in (*names.topics, "unknown")]
    for group in names.groups:
        for topics in (asked, None):
            yield {"group_id": group, "topics": topics, "require_stable": False}


def _offset_fetch(names: Names, side: Side) -> Iterator[Fields]:
    asked = [
        {"name": name, "topic_id": side.ids.get(name, UNKNOWN_ID), "partition_indexes": [0]}
        for name in (*names.topics, "unknown")
    ]
    for topics in (asked, None):
        groups = [
            {"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}
            for group in names.groups
        ]
        yield {"groups": groups, "require_stable": False}


def _find_one_coordinator(names: Names, side: Side) -> Iterator[Fields]:
    for kind, keys in enumerate((names.groups, names.transactional_ids)):
        for key in keys:
            yield {"key": key, "key_type": kind}


def _find_coordinators(names: Names, side: Side) -> Iterator[Fields]:
    for kind, keys in enumerate((names.groups, names.transactional_ids)):
        yield {"key_type": kind, "coordinator_keys": list(keys)}


def _of_groups(**fields: Any) -> Build:
    """Return requests for each group by itself, from a member that does not exist."""

    def build(names: Names, side: Side) -> Iterator[Fields]:
        for group in names.groups:
            yield {"group_id": group, "member_id": "nobody", **fields}

    return build


def _of_group_list(field: str, **fields: Any) -> Build:
    def build(names: Names, side: Side) -> Iterator[Fields]:
        yield {field: list(names.groups), **fields}

    return build


def _plain(*several: Fields) -> Build:
    """Return requests that name nothing of the asker's."""

    def build(names: Names, side: Side) -> Iterator[Fields]:
        yield from several

    return build


def _create_topics(names: Names, side: Side) -> Iterator[Fields]:
    topics = [
        {
            "name": name,
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": (),
            "configs": (),
        }
        for name in (f"new{names.number}", f"{MIXED}new{names.number}", *names.topics)
    ]
    yield {"topics": topics, "timeout": 10_000, "validate_only": True}


def _delete_topics_by_name(names: Names, side: Side) -> Iterator[Fields]:
    yield {"topic_names": [*names.topics, "unknown"], "timeout": 10_000}


def _delete_topics(names: Names, side: Side) -> Iterator[Fields]:
    topics: list[Fields] = [{"name": None, "topic_id": side.ids[name]} for name in names.topics]
    topics += [{"name": "unknown", "topic_id": None}, {"name": None, "topic_id": UNKNOWN_ID}]
    yield {"topics": topics, "timeout": 10_000}


def _delete_records(names: Names, side: Side) -> Iterator[Fields]:
    topics = [
        {"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}
        for name in (*names.topics, "unknown")
    ]
    yield {"topics": topics, "timeout": 10_000}


def _init_producer_id(names: Names, side: Side) -> Iterator[Fields]:
    for transactional_id in (None, *names.transactional_ids):
        yield {
            "transactional_id": transactional_id,
            "transaction_timeout": 10_000,
            "producer_id": -1,
            "producer_epoch": -1,
        }


def _epochs(names: Names, side: Side) -> Iterator[Fields]:
    partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    topics = [{"topic": name, "partitions": [partition]} for name in (*names.topics, "unknown")]
    yield {"replica_id": -1, "topics": topics}


def _add_partitions_of_one(names: Names, side: Side) -> Iterator[Fields]:
    for transactional_id in names.transactional_ids:
        topics = [{"name": name, "partitions": [0]} for name in (*names.topics, "unknown")]
        yield {
            "v3_and_below_transactional_id": transactional_id,
            "v3_and_below_producer_id": _NOBODY["producer_id"],
            "v3_and_below_producer_epoch": _NOBODY["producer_epoch"],
            "v3_and_below_topics": topics,
        }


def _add_partitions(names: Names, side: Side) -> Iterator[Fields]:
    topics = [{"name": name, "partitions": [0]} for name in names.topics]
    transactions = [
        {"transactional_id": each, "verify_only": False, "topics": topics, **_NOBODY}
        for each in names.transactional_ids
    ]
    yield {"transactions": transactions}


def _add_offsets(names: Names, side: Side) -> Iterator[Fields]:
    for transactional_id in names.transactional_ids:
        for group in names.groups:
            yield {"transactional_id": transactional_id, "group_id": group, **_NOBODY}


def _end_txn(names: Names, side: Side) -> Iterator[Fields]:
    for transactional_id in names.transactional_ids:
        yield {"transactional_id": transactional_id, "committed": False, **_NOBODY}


def _markers(names: Names, side: Side) -> Iterator[Fields]:
    topics = [{"name": name, "partition_indexes": [0]} for name in (*names.topics, "unknown")]
    marker = {"transaction_result": False, "coordinator_epoch": 0, "topics": topics, **_NOBODY}
    yield {"markers": [marker | {"transaction_version": 1}]}


def _txn_offset_commit(names: Names, side: Side) -> Iterator[Fields]:
    for transactional_id in names.transactional_ids:
        for group in names.groups:
            yield {
                "transactional_id": transactional_id,
                "group_id": group,
                "generation_id": -1,
                "member_id": "",
                "group_instance_id": None,
                "topics": [
                    {key: value for key, value in topic.items() if key != "topic_id"}
                    for topic in _committed(names, side)
                ],
                **_NOBODY,
            }


def _config_resources(names: Names) -> list[tuple[int, str]]:
    topics = [(2, name) for name in (*names.topics, "unknown")]
    return [*topics, (4, "1"), (4, ""), (8, "1"), (16, "metrics"), *((32, g) for g in names.groups)]


def _describe_configs(names: Names, side: Side) -> Iterator[Fields]:
    for kind, name in _config_resources(names):
        keys = {8: ["no.such.logger"], 32: []}.get(kind, ["retention.ms"])
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        yield {
            "resources": [resource],
            "include_synonyms": False,
            "include_documentation": False,
        }


def _alter_configs(names: Names, side: Side) -> Iterator[Fields]:
    for kind, name in _config_resources(names):
        if kind == 2 or (kind == 4 and name):
            key = "retention.ms" if kind == 2 else "leader.replication.throttled.rate"
            configs = [{"name": key, "value": "1"}]
            resource = {"resource_type": kind, "resource_name": name, "configs": configs}
            yield {"resources": [resource], "validate_only": True}


def _incremental_alter_configs(names: Names, side: Side) -> Iterator[Fields]:
    for kind, name in _config_resources(names):
        if kind in (2, 4, 8):
            one = {"name": "retention.ms", "config_operation": 0, "value": "1"}
            configs = [one] if kind == 2 else []
            resource = {"resource_type": kind, "resource_name": name, "configs": configs}
            yield {"resources": [resource], "validate_only": True}


def _of_topics(name_field: str, partitions_field: str, **fields: Any) -> Build:
    """Return a request for partition 0 of both topics and of an unknown one."""

    def build(names: Names, side: Side) -> Iterator[Fields]:
        topics = [{name_field: name, partitions_field: [0]} for name in (*names.topics, "unknown")]
        yield {"topics": topics, **fields}

    return build


def _alter_log_dirs(names: Names, side: Side) -> Iterator[Fields]:
    topics = [{"name": name, "partitions": [0]} for name in names.topics]
    yield {"dirs": [{"path": "/no/such/directory", "topics": topics}]}


def _create_partitions(names: Names, side: Side) -> Iterator[Fields]:
    topics = [
        {"name": name, "count": 2, "assignments": None} for name in (*names.topics, "unknown")
    ]
    yield {"topics": topics, "timeout": 10_000, "validate_only": True}


def _elect(names: Names, side: Side) -> Iterator[Fields]:
    asked = [{"topic": name, "partitions": [0]} for name in names.topics]
    yield {"election_type": 0, "topic_partitions": asked, "timeout": 10_000}


def _reassign(names: Names, side: Side) -> Iterator[Fields]:
    partition = {"partition_index": 0, "replicas": None}
    topics = [{"name": name, "partitions": [partition]} for name in (*names.topics, "unknown")]
    yield {"timeout": 10_000, "allow_replication_factor_change": True, "topics": topics}


def _list_reassignments(names: Names, side: Side) -> Iterator[Fields]:
    yield {"timeout": 10_000, "topics": None}


def _offset_delete(names: Names, side: Side) -> Iterator[Fields]:
    topics = [
        {"name": name, "partitions": [{"partition_index": 0}]}
        for name in (*names.topics, "unknown")
    ]
    for group in names.groups:
        yield {"group_id": group, "topics": topics}


def _transactions(names: Names, side: Side) -> Iterator[Fields]:
    yield {"transactional_ids": [*names.transactional_ids, "unknown"]}


def _consumer_heartbeat(names: Names, side: Side) -> Iterator[Fields]:
    subscribed: list[tuple[list[str] | None, str | None]] = [
        ([names.topics[0]], None),
        (list(names.topics), None),
        (None, None),
    ]
    for group in names.groups:
        for topics, regex in subscribed:
            yield {
                "group_id": group,
                "member_id": "nobody",
                "member_epoch": 5,
                "instance_id": None,
                "rack_id": None,
                "rebalance_timeout": -1,
                "subscribed_topic_names": topics,
                "subscribed_topic_regex": regex,
                "server_assignor": None,
                "topic_partitions": None,
            }


def _topic_pages(names: Names, side: Side) -> Iterator[Fields]:
    topics = [{"name": name} for name in (*names.topics, "unknown")]
    yield {"topics": topics, "response_partition_limit": 100, "cursor": None}


_JOIN: Final = {
    "session_timeout": 10_000,
    "rebalance_timeout": 10_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b""}],
    "reason": None,
}
_SYNC: Final = {
    "generation_id": 1,
    "protocol_type": "consumer",
    "protocol_name": "range",
    "assignments": [],
}
_LEAVE: Final = {"members": [{"member_id": "nobody", "group_instance_id": None, "reason": None}]}

REQUESTS: Final[tuple[tuple[ApiKey, tuple[int, ...], Build], ...]] = (
    (ApiKey.PRODUCE, (3, 8, 12, 13), _produce),
    (ApiKey.FETCH, (4, 11, 12, 13, 16), _fetch),
    (ApiKey.LIST_OFFSETS, (1, 7, 10), _list_offsets),
    (ApiKey.METADATA, (1, 8, 9, 12), _metadata),
    (ApiKey.METADATA, (12, 13), _metadata_by_id),
    (ApiKey.OFFSET_COMMIT, (2, 8, 9, 10), _offset_commit),
    (ApiKey.OFFSET_FETCH, (2, 7), _offset_fetch_one),
    (ApiKey.OFFSET_FETCH, (8, 9, 10), _offset_fetch),
    (ApiKey.FIND_COORDINATOR, (1, 3), _find_one_coordinator),
    (ApiKey.FIND_COORDINATOR, (4, 6), _find_coordinators),
    (ApiKey.JOIN_GROUP, (2, 5, 9), _of_groups(**_JOIN)),
    (ApiKey.HEARTBEAT, (0, 4), _of_groups(generation_id=1)),
    (ApiKey.LEAVE_GROUP, (0, 3, 5), _of_groups(**_LEAVE)),
    (ApiKey.SYNC_GROUP, (0, 5), _of_groups(**_SYNC)),
    (
        ApiKey.DESCRIBE_GROUPS,
        (0, 5, 6),
        _of_group_list("groups", include_authorized_operations=True),
    ),
    (ApiKey.LIST_GROUPS, (0, 5), _plain({"states_filter": [], "types_filter": []})),
    (ApiKey.CREATE_TOPICS, (2, 7), _create_topics),
    (ApiKey.DELETE_RECORDS, (0, 2), _delete_records),
    (ApiKey.INIT_PRODUCER_ID, (0, 4), _init_producer_id),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, (2, 4), _epochs),
    (ApiKey.ADD_PARTITIONS_TO_TXN, (0, 3), _add_partitions_of_one),
    (ApiKey.ADD_PARTITIONS_TO_TXN, (4, 5), _add_partitions),
    (ApiKey.ADD_OFFSETS_TO_TXN, (0, 4), _add_offsets),
    (ApiKey.END_TXN, (0, 4), _end_txn),
    (ApiKey.WRITE_TXN_MARKERS, (1,), _markers),
    (ApiKey.TXN_OFFSET_COMMIT, (0, 3, 5), _txn_offset_commit),
    (ApiKey.CREATE_ACLS, (1, 3), _plain({"creations": [HARMLESS_ACL]}, {"creations": []})),
    (ApiKey.DESCRIBE_ACLS, (1, 3), _plain(EVERY_ACL)),
    (ApiKey.DELETE_ACLS, (1, 3), _plain({"filters": [EVERY_ACL, EVERY_ACL]}, {"filters": []})),
    (ApiKey.DESCRIBE_CONFIGS, (1, 4), _describe_configs),
    (ApiKey.ALTER_CONFIGS, (0, 2), _alter_configs),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1), _incremental_alter_configs),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, (1, 2), _alter_log_dirs),
    (ApiKey.DESCRIBE_LOG_DIRS, (1, 4), _of_topics("topic", "partitions")),
    (ApiKey.CREATE_PARTITIONS, (0, 3), _create_partitions),
    (ApiKey.DELETE_GROUPS, (0, 2), _of_group_list("groups_names")),
    (ApiKey.ELECT_LEADERS, (0, 2), _elect),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, (0, 1), _reassign),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, (0,), _list_reassignments),
    (ApiKey.OFFSET_DELETE, (0,), _offset_delete),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, (0, 1), _plain({"components": [], "strict": False})),
    (ApiKey.ALTER_CLIENT_QUOTAS, (0, 1), _plain(HARMLESS_QUOTA, NO_QUOTAS)),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (0,), _plain({"users": []})),
    (
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        (0,),
        _plain({"deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": []}),
    ),
    (
        ApiKey.DESCRIBE_CLUSTER,
        (0, 2),
        _plain(
            {
                "include_cluster_authorized_operations": True,
                "endpoint_type": 1,
                "include_fenced_brokers": False,
            }
        ),
    ),
    (ApiKey.DESCRIBE_PRODUCERS, (0,), _of_topics("name", "partition_indexes")),
    (ApiKey.DESCRIBE_TRANSACTIONS, (0,), _transactions),
    (
        ApiKey.LIST_TRANSACTIONS,
        (0, 1),
        _plain({"state_filters": [], "producer_id_filters": [], "duration_filter": -1}),
    ),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, (0, 1), _consumer_heartbeat),
    (
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        (0, 1),
        _of_group_list("group_ids", include_authorized_operations=True),
    ),
    (ApiKey.LIST_CONFIG_RESOURCES, (0, 1), _plain({"resource_types": []}, {"resource_types": [2]})),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, (0,), _topic_pages),
    # Last: they are gone then.
    (ApiKey.DELETE_TOPICS, (1, 5), _delete_topics_by_name),
    (ApiKey.DELETE_TOPICS, (6,), _delete_topics),
)


def requests(names: Names, side: Side, *, every_version: bool = False) -> Iterator[tuple[str, Ask]]:
    """Return every request of an asker, each with a name; by default only its newest version."""
    for api, versions, build in REQUESTS:
        for version in versions if every_version else versions[-1:]:
            for index, fields in enumerate(build(names, side)):
                yield f"{api.name} v{version} {index}", Ask(api, version, fields)
