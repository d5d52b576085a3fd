"""The broker configs that a settings file may set, by Kafka's names. Pure.

A config is either one of those below, or the broker's default of a topic config (such as
log.retention.ms, see log/config/topic_configs.py).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from typing import Final, Literal

from local_cluster.kafka_configs.address_limits import parse_overrides
from local_cluster.kafka_configs.definition import ConfigType
from local_cluster.kafka_configs.table import kafka_configs
from local_cluster.log.config.topic_configs import TOPIC_CONFIGS

_BOOLEANS: Final = frozenset(
    {
        "allow.everyone.if.no.acl.found",
        "auto.create.topics.enable",
        "auto.leader.rebalance.enable",
        "controlled.shutdown.enable",
        "delete.topic.enable",
        "heliograph.authorizer.dry.run",
        "heliograph.client.metrics.enable",
        "log.cleaner.enable",
        "transaction.partition.verification.enable",
        "zookeeper.set.acl",
    }
)
_INTEGERS: Final = frozenset(
    {
        "add.partitions.to.txn.retry.backoff.max.ms",
        "add.partitions.to.txn.retry.backoff.ms",
        "connection.failed.authentication.delay.ms",
        "connections.max.idle.ms",
        "connections.max.reauth.ms",
        "controller.quota.window.num",
        "controller.quota.window.size.seconds",
        "default.replication.factor",
        "group.consumer.assignment.interval.ms",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.max.assignment.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.max.session.timeout.ms",
        "group.consumer.max.size",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.regex.refresh.interval.ms",
        "group.consumer.session.timeout.ms",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "heliograph.acl.image.max.age.ms",
        "heliograph.stray.delete.delay.ms",
        "leader.imbalance.check.interval.seconds",
        "leader.imbalance.per.broker.percentage",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.retention.check.interval.ms",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.incremental.fetch.session.cache.slots",
        "num.partitions",
        "offset.metadata.max.bytes",
        "offsets.retention.check.interval.ms",
        "offsets.retention.minutes",
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        "producer.id.expiration.ms",
        "queued.max.request.bytes",
        "quota.window.num",
        "quota.window.size.seconds",
        "replica.fetch.backoff.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.lag.time.max.ms",
        "replication.quota.window.num",
        "replication.quota.window.size.seconds",
        "socket.request.max.bytes",
        "socket.send.buffer.bytes",
        "telemetry.max.bytes",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.max.timeout.ms",
        "transaction.state.log.min.isr",
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
        "transactional.id.expiration.ms",
    }
)
_NUMBERS: Final = frozenset(
    {
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.max.bytes.per.second",
    }
)
ReservedType = Literal["topics", "groups", "transactional_ids"]
RESERVED_TYPES_DEFAULT: Final[tuple[ReservedType, ...]] = ("topics", "groups", "transactional_ids")
"""What is reserved for mirrors, probes and Spark under names that begin with `heliograph-`."""
AUTHORIZERS: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""The values of authorizer.class.name besides none: Kafka 4.4's, and that of its ZooKeeper mode."""
_TEXTS: Final = frozenset(
    {
        "authorizer.class.name",
        "group.consumer.assignors",
        "group.consumer.migration.policy",
        "heliograph.scram.credential.readers",
        "max.connections.per.ip.overrides",
        "replica.selector.class",
        "super.users",
    }
)
_TOPIC_DEFAULTS: Final = {
    synonym.name: (config, synonym)
    for config in TOPIC_CONFIGS.values()
    for synonym in config.synonyms
}
KNOWN_BROKER_CONFIGS: Final = _BOOLEANS | _INTEGERS | _NUMBERS | _TEXTS | _TOPIC_DEFAULTS.keys()
"""Every broker config that a settings file or a topology may set."""

_REQUIREMENTS: Final[Mapping[str, tuple[Callable[[float], bool], str]]] = {
    "log.cleaner.dedupe.buffer.size": (
        lambda size_bytes: size_bytes > 1024 * 1024,
        "at least 1MB per cleaner thread.",
    ),
    "log.cleaner.io.buffer.load.factor": (
        lambda factor: 0 < factor <= 1,
        "greater than 0, and at most 1",
    ),
    "log.retention.ms": (
        lambda age_ms: age_ms != 0,
        "unlimited (-1) or, greater than or equal to 1",
    ),
    "log.roll.jitter.ms": (lambda jitter_ms: jitter_ms >= 0, "greater than or equal to 0"),
    "log.roll.ms": (lambda age_ms: age_ms >= 1, "greater than or equal to 1"),
}
"""What Kafka requires beyond types and bounds (AbstractKafkaConfig.validateValues), in its words.

The bounds of the load factor are our own: it divides.
"""

DEFAULTS: Final[Mapping[str, str]] = {
    "group.consumer.max.size": "10000",
    "group.max.size": "10000",
    "offsets.topic.replication.factor": "1",
    "queued.max.request.bytes": "536870912",
    "replica.fetch.backoff.ms": "100",
    "socket.send.buffer.bytes": "262144",
    "transaction.state.log.replication.factor": "1",
}
"""The defaults that differ from Kafka's."""


LISTENER_CONFIGS: Final = frozenset({"max.connection.creation.rate", "max.connections"})
"""Configs that a listener may have for itself (KIP-402, KIP-612)."""
_LISTENER_CONFIG: Final = re.compile(r"listener\.name\.([^.]+)\.(.+)")


def listener_config(name: str) -> tuple[str, str] | None:
    """Return listener and config of `listener.name.<listener>.<config>`, None for other names.

    As in Kafka, the name of the listener is in lower case.
    """
    found = _LISTENER_CONFIG.fullmatch(name)
    if found is None or found[2] not in LISTENER_CONFIGS or found[1] != found[1].lower():
        return None
    return found[1], found[2]


def is_known(name: str) -> bool:
    """Return whether a settings file may set this config."""
    return name in KNOWN_BROKER_CONFIGS or listener_config(name) is not None


def base_name(name: str) -> str:
    """Return the config that `listener.name.<listener>.<config>` sets, else the name itself."""
    found = listener_config(name)
    return name if found is None else found[1]


def type_of_own(name: str) -> ConfigType:
    """Return the type of a config that Kafka does not have, or does not show."""
    if name in _BOOLEANS:
        return ConfigType.BOOLEAN
    if name in _INTEGERS:
        return ConfigType.LONG
    return ConfigType.DOUBLE if name in _NUMBERS else ConfigType.STRING


def find_unmet(name: str, value: str) -> str | None:
    """Return what a number must be beyond its type, None if it is. `value` is a number."""
    is_met, expected = _REQUIREMENTS.get(name, (None, None))
    return None if is_met is None or is_met(float(value)) else expected


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Name the known name that is most like this one; empty if none is near."""
    near = difflib.get_close_matches(name.lower(), known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def why_unknown(name: str) -> str:
    """Return why a name that is not known cannot be set, and the nearest known name."""
    if name in kafka_configs("broker"):
        return "this broker does not use this config of Kafka; remove it"
    hint = did_you_mean(name, KNOWN_BROKER_CONFIGS)
    return f"unknown config; expected the name of a broker config{hint}"


def principals_of(text: str) -> list[str]:
    """Return the principals of a list such as super.users, with semicolons between them."""
    return [each.strip() for each in text.split(";") if each.strip()]


def find_problem(name: str, value: str) -> str | None:
    """Return what the value of a known broker config must be, None if the value is valid."""
    base = base_name(name)
    return _find_wrong_type(base, value) or find_unmet(base, value)


def _find_wrong_type(name: str, value: str) -> str | None:
    if name in _BOOLEANS:
        return None if value.strip().lower() in ("true", "false") else "true or false"
    if name in _INTEGERS:
        return None if re.fullmatch(r"\s*-?\d+\s*", value) else "a whole number"
    if name in _NUMBERS:
        return None if re.fullmatch(r"\s*\d+(\.\d+)?([eE][+-]?\d+)?\s*", value) else "a number"
    if name == "authorizer.class.name":
        known = ("", *AUTHORIZERS)
        return None if value.strip() in known else f"nothing, or one of {', '.join(AUTHORIZERS)}"
    if name in ("super.users", "heliograph.scram.credential.readers"):
        is_valid = all(re.fullmatch(r"[^:\s]+:\S.*", each) for each in principals_of(value))
        return None if is_valid else "principals such as User:alice, with semicolons between them"
    if name == "max.connections.per.ip.overrides":
        try:
            parse_overrides(value)
        except ValueError:
            return "addresses with numbers such as 10.0.0.1:100,::1:200"
        return None
    if name in _TEXTS:
        text = kafka_configs("broker").get(name)
        return None if text is None else text.problem(value)
    if name not in _TOPIC_DEFAULTS:
        return None
    config, synonym = _TOPIC_DEFAULTS[name]
    try:
        return config.problem(synonym.convert(value))
    except ValueError:
        return "a whole number"
