"""Kafka's config names in a topology: which are known, and what the broker is given.

A topic default is given to the broker under the broker's name for it: retention.ms as
log.retention.ms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from local_cluster.log.config.topic_configs import TOPIC_CONFIGS
from topology.file.problems import Finding, Location, nearest_name
from topology.model import Cluster

_SWITCHES: Final = frozenset(
    {
        "auto.create.topics.enable",
        "auto.leader.rebalance.enable",
        "controlled.shutdown.enable",
        "delete.topic.enable",
        "log.cleaner.enable",
        "transaction.partition.verification.enable",
    }
)
_WHOLE_NUMBERS: Final = frozenset(
    {
        "add.partitions.to.txn.retry.backoff.max.ms",
        "add.partitions.to.txn.retry.backoff.ms",
        "default.replication.factor",
        "group.consumer.assignment.interval.ms",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.max.size",
        "group.consumer.regex.refresh.interval.ms",
        "group.consumer.session.timeout.ms",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "heliograph.stray.delete.delay.ms",
        "leader.imbalance.check.interval.seconds",
        "leader.imbalance.per.broker.percentage",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.retention.check.interval.ms",
        "max.incremental.fetch.session.cache.slots",
        "num.partitions",
        "offset.metadata.max.bytes",
        "offsets.retention.check.interval.ms",
        "offsets.retention.minutes",
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        "producer.id.expiration.ms",
        "replica.fetch.backoff.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.lag.time.max.ms",
        "replication.quota.window.num",
        "replication.quota.window.size.seconds",
        "socket.request.max.bytes",
        "socket.send.buffer.bytes",
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
_TEXTS: Final = frozenset(
    {
        "group.consumer.assignors",
        "replica.selector.class",
    }
)
BROKER_CONFIGS: Final = _SWITCHES | _WHOLE_NUMBERS | _NUMBERS | _TEXTS
"""Broker configs that are not the default of a topic config."""

INTERNAL_REPLICATION_FACTOR_MAX = 3
"""Kafka's default for the topics of the coordinators."""


def known_broker_configs() -> frozenset[str]:
    """Every broker config a topology may set."""
    synonyms = (synonym.name for each in TOPIC_CONFIGS.values() for synonym in each.synonyms)
    return BROKER_CONFIGS.union(synonyms)


def check_configs(cluster: Cluster, here: Location) -> Iterator[Finding]:
    """Names that are not known, values out of bounds, and what is said twice."""
    at: Location = (*here, "topic_defaults", "config")
    for name, value in cluster.topic_defaults.config.items():
        config = TOPIC_CONFIGS.get(name)
        if config is None or not config.synonyms:
            near = nearest_name(name, [each for each, it in TOPIC_CONFIGS.items() if it.synonyms])
            yield Finding((*at, name), "the name of a topic config", near, at_key=True)
            continue
        problem = config.problem(value)
        if problem is not None:
            yield Finding((*at, name), f"{problem}, not {value!r}")
    known = known_broker_configs()
    given = topic_defaults(cluster)
    for name, value in cluster.config.items():
        if name not in known:
            near = nearest_name(name, known)
            expected = "the name of a broker config"
            yield Finding((*here, "config", name), expected, near, at_key=True)
        elif name in given:
            expected = "set once; topic_defaults sets it as well"
            yield Finding((*here, "config", name), expected, at_key=True)
        elif (problem := _problem(name, value)) is not None:
            yield Finding((*here, "config", name), f"{problem}, not {value!r}")


def _problem(name: str, value: str) -> str | None:
    """What is wrong with the value of a known broker config, None if nothing is."""
    if name in _SWITCHES:
        return None if value.strip().lower() in ("true", "false") else "true or false"
    if name in _WHOLE_NUMBERS:
        return None if re.fullmatch(r"\s*-?\d+\s*", value) else "a whole number"
    if name in _NUMBERS:
        return None if re.fullmatch(r"\s*\d+(\.\d+)?([eE][+-]?\d+)?\s*", value) else "a number"
    for config in TOPIC_CONFIGS.values():
        for synonym in config.synonyms:
            if synonym.name == name:
                try:
                    return config.problem(synonym.convert(value))
                except ValueError:
                    return "a whole number"
    return None


def topic_defaults(cluster: Cluster) -> dict[str, str]:
    """The topic defaults under the broker's names; unknown ones are left out."""
    defaults = cluster.topic_defaults
    configs: dict[str, str] = {}
    if defaults.partitions is not None:
        configs["num.partitions"] = str(defaults.partitions)
    if defaults.replication_factor is not None:
        configs["default.replication.factor"] = str(defaults.replication_factor)
    for name, value in defaults.config.items():
        config = TOPIC_CONFIGS.get(name)
        if config is not None and config.synonyms:
            configs[config.synonyms[0].name] = value
    return configs


def broker_config(cluster: Cluster) -> dict[str, str]:
    """What every broker of the cluster is given."""
    return {**_internal_topics(cluster), **topic_defaults(cluster), **cluster.config}


def _internal_topics(cluster: Cluster) -> dict[str, str]:
    """Replicas of the internal topics: Kafka's three, or as many as there are brokers."""
    factor = min(INTERNAL_REPLICATION_FACTOR_MAX, len(cluster.broker_list))
    if factor == 1:
        return {}
    names = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
    return dict.fromkeys(names, str(factor))
