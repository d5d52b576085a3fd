"""What follows at once from changed broker configs: the configs of logs, and lines in the log.

Other parts of the broker read the configs when they need them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from local_cluster.controller.decisions.dynamic_broker_configs import DEFAULT_ENTITY, valid_configs
from local_cluster.controller.member.current_configs import CurrentConfigs
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.log.config.log_config import LogConfig, stored_config
from local_cluster.replication.partition import Partition

log = logging.getLogger(__name__)


class AppliedConfigs:
    """Remembers what it logged. Dynamic configs are no secrets: passwords are refused."""

    def __init__(
        self, configs: CurrentConfigs, metadata: MetadataCache, replicas: Iterable[Partition]
    ) -> None:
        self._configs = configs
        self._metadata = metadata
        self._replicas = replicas
        self._seen = dict(configs)
        self._ignored: frozenset[str] = frozenset()

    def apply(self, changes: Changes) -> None:
        """Take over changed configs. Call it after the replicas took up the change."""
        if not changes.broker_configs:
            return
        self._log_changes()
        self._warn_of_ignored()
        self._update_logs()

    def _update_logs(self) -> None:
        by_topic: dict[str, LogConfig] = {}
        for partition in self._replicas:
            topic = self._metadata.topics.get(partition.topic)
            if topic is None:
                continue
            if topic.name not in by_topic:
                by_topic[topic.name] = stored_config(topic.configs, self._configs)[0]
            if partition.log.config != by_topic[topic.name]:
                partition.log.state.update_config(by_topic[topic.name])

    def _log_changes(self) -> None:
        now = dict(self._configs)
        for name in sorted(now.keys() | self._seen.keys()):
            before, after = self._seen.get(name), now.get(name)
            if before != after:
                log.info("%s is %s, was %s", name, _shown(after), _shown(before))
        self._seen = now

    def _warn_of_ignored(self) -> None:
        stored = self._metadata.broker_configs
        entities = [stored.get(name, {}) for name in (str(self._metadata.own_id), DEFAULT_ENTITY)]
        ignored = frozenset(
            name for entity in entities for name in entity.keys() - valid_configs(entity).keys()
        )
        if ignored - self._ignored:
            log.warning(
                "ZooKeeper has dynamic configs that this broker cannot use: %s",
                ", ".join(sorted(ignored)),
            )
        self._ignored = ignored


def _shown(value: str | None) -> str:
    return "the default" if value is None else value
