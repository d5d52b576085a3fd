"""Every path in ZooKeeper, as Kafka 3.9 lays them out in ZooKeeper mode (kafka.zk.ZkData)."""

from __future__ import annotations

import re
from typing import Final

CONSUMERS: Final = "/consumers"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"
FEATURE: Final = "/feature"
DELETE_TOPICS: Final = "/admin/delete_topics"
CONFIGS: Final = "/config"
BROKER_CONFIGS: Final = "/config/brokers"
GROUP_CONFIGS: Final = "groups"
CLIENT_METRICS_CONFIGS: Final = "client-metrics"
ENTITY_KINDS: Final = (GROUP_CONFIGS, CLIENT_METRICS_CONFIGS)
"""Kinds of entities other than topics and brokers; their parents exist once one has configs."""
USER_CONFIGS: Final = "/config/users"
CLIENT_CONFIGS: Final = "/config/clients"
ADDRESS_CONFIGS: Final = "/config/ips"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "/config/changes/config_change_"
ISR_CHANGE_NOTIFICATION: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = "/log_dir_event_notification/log_dir_event_"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
ACLS: Final = "/kafka-acl"
PREFIXED_ACLS: Final = "/kafka-acl-extended/prefixed"
ACL_CHANGES: Final = "/kafka-acl-changes"
PREFIXED_ACL_CHANGES: Final = "/kafka-acl-extended-changes"
ACL_CHANGE: Final = "acl_changes_"
"""The name of a change notification without its number."""
DECLARED_RIGHTS: Final = "/heliograph-declared-rights"
"""Users and ACLs that `heliograph up` created. Not Kafka's, and no broker reads it."""
MIRROR_PRODUCERS: Final = "/heliograph-mirror-producer-ids"
"""Producer ids that mirrors got here. Not Kafka's; our brokers follow it."""
TOPOLOGY_FILE: Final = "/heliograph-topology"
"""The topology file of several hosts, without secrets. Not Kafka's, and no broker reads it."""
RESTART_TURN: Final = "/heliograph-restart-turn"
"""While a host restarts brokers: its name. Not Kafka's, and no broker reads it."""
UPGRADE_PLAN: Final = "/heliograph-upgrade"
"""The wanted version, and how far each host is. Not Kafka's, and no broker reads it."""
UPGRADE_TURN: Final = "/heliograph-upgrade-turn"
"""While a host takes over the wanted version: its name. Not Kafka's, and no broker reads it."""
FORMAT_LEVEL: Final = "/heliograph-format-level"
"""The level of the cluster's formats. Not Kafka's; our brokers read it when they start."""

PERSISTENT_PATHS: Final = (
    CONSUMERS,
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/brokers/seqid",
    "/config",
    "/config/topics",
    CLIENT_CONFIGS,
    USER_CONFIGS,
    BROKER_CONFIGS,
    ADDRESS_CONFIGS,
    CONFIG_CHANGES,
    "/admin",
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    "/cluster",
)
"""Created at every start if they are missing, parents first."""


def broker_id_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def topic_config_path(topic: str) -> str:
    return f"/config/topics/{topic}"


def broker_config_path(entity: str) -> str:
    return f"{BROKER_CONFIGS}/{entity}"


def user_config_path(username: str) -> str:
    return f"{USER_CONFIGS}/{sanitize(username)}"


def entity_of(kind: str, name: str) -> str:
    """Return the path of an entity below /config."""
    return f"{kind}/{sanitize(name)}"


def kind_and_name(entity: str) -> tuple[str, str]:
    """Return the inverse of `entity_of`."""
    kind, _, name = entity.partition("/")
    return kind, desanitize(name)


def sanitize(name: str) -> str:
    """Return any name as the name of a znode, as Kafka's Sanitizer does.

    A name of dots alone is one path element in no other way.
    """
    if not name.strip("."):
        return "%2E" * len(name)
    return re.sub(
        rb"[^A-Za-z0-9._-]", lambda found: b"%%%02X" % found[0][0], name.encode()
    ).decode()


def desanitize(name: str) -> str:
    """Return the inverse of `sanitize`."""
    encoded = re.sub(rb"%([0-9A-F]{2})", lambda found: bytes([int(found[1], 16)]), name.encode())
    return encoded.decode()


def entity_config_path(entity: str) -> str:
    return f"{CONFIGS}/{entity}"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"
