"""Kafka's configs in a topology: the known names and values, and the configs of a broker. Pure.

A topic default becomes a broker config under its broker name: retention.ms as log.retention.ms.
"""

from __future__ import annotations

from collections.abc import Iterator

from local_cluster.broker_configs import KNOWN_BROKER_CONFIGS, find_problem, is_known
from local_cluster.kafka_configs.table import kafka_configs
from local_cluster.log.config.topic_configs import TOPIC_CONFIGS
from topology.model import Cluster
from topology.problems import Finding, Location, nearest_name

INTERNAL_REPLICATION_FACTOR_MAX = 3
"""Kafka's default replication factor of the coordinators' topics."""


def check_configs(cluster: Cluster, here: Location) -> Iterator[Finding]:
    """Yield unknown names, invalid values, and configs that are set twice."""
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
    given = topic_defaults(cluster)
    for name, value in cluster.config.items():
        if not is_known(name):
            if name in kafka_configs("broker"):
                expected, near = "a config that our brokers use", None
            else:
                expected = "the name of a broker config"
                near = nearest_name(name, KNOWN_BROKER_CONFIGS)
            yield Finding((*here, "config", name), expected, near, at_key=True)
        elif name in given:
            expected = "set once; topic_defaults sets it as well"
            yield Finding((*here, "config", name), expected, at_key=True)
        elif (problem := find_problem(name, value)) is not None:
            yield Finding((*here, "config", name), f"{problem}, not {value!r}")


def topic_defaults(cluster: Cluster) -> dict[str, str]:
    """Return the topic defaults under their broker names, without unknown ones."""
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
    """Return the configs of every broker of the cluster."""
    security = {
        name: value
        for part in (cluster.authorizer, cluster.zookeeper_security)
        if part is not None
        for name, value in part.configs().items()
    }
    return {**_internal_topics(cluster), **topic_defaults(cluster), **security, **cluster.config}


def _internal_topics(cluster: Cluster) -> dict[str, str]:
    """Return the replication factors of the internal topics: Kafka's 3, or one per broker."""
    factor = min(INTERNAL_REPLICATION_FACTOR_MAX, len(cluster.broker_list))
    if factor == 1:
        return {}
    names = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
    return dict.fromkeys(names, str(factor))
