"""The settings of single groups: the broker's, with the configs that a group has of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from local_cluster.controller.model import znode_paths
from local_cluster.groups.consumer.requests import ConsumerGroupLimits
from local_cluster.kafka_configs.groups import number_in_use

if TYPE_CHECKING:
    from local_cluster.controller.model.metadata_cache import MetadataCache

ASSIGNMENT_INTERVAL: Final = "group.consumer.assignment.interval.ms"


class GroupConfigs:
    """Returns the settings of a group as the metadata of this broker has them."""

    def __init__(
        self, limits: ConsumerGroupLimits, broker: Mapping[str, str], metadata: MetadataCache
    ) -> None:
        """`broker`: the configs that the broker uses; it may change with the metadata."""
        self._limits = limits
        self._default = limits
        self._broker = broker
        self._metadata = metadata
        self._seen: tuple[object, object] = (None, None)
        self._by_group: dict[str, ConsumerGroupLimits] = {}

    def limits_of(self, group_id: str) -> ConsumerGroupLimits:
        """Return the settings of one group."""
        entities, brokers = self._metadata.entity_configs, self._metadata.broker_configs
        if self._seen[0] is not entities or self._seen[1] is not brokers:
            self._seen = (entities, brokers)
            self._by_group.clear()
            self._default = self._of_broker()
        if not entities:
            return self._default
        found = self._by_group.get(group_id)
        if found is None:
            entity = znode_paths.entity_of(znode_paths.GROUP_CONFIGS, group_id)
            configs = entities.get(entity)
            found = self._default if configs is None else self._with(configs)
            # Only groups with configs, of which there are as many as in the metadata.
            if configs is not None:
                self._by_group[group_id] = found
        return found

    def _of_broker(self) -> ConsumerGroupLimits:
        """Return the settings of a group without configs: one of them changes at run time."""
        interval_ms = self._limits.group_consumer_assignment_interval_ms
        return replace(
            self._limits,
            group_consumer_assignment_interval_ms=int(
                self._broker.get(ASSIGNMENT_INTERVAL, interval_ms)
            ),
        )

    def _with(self, configs: Mapping[str, str]) -> ConsumerGroupLimits:
        def number(name: str) -> int:
            return number_in_use(name, configs, self._broker)

        return replace(
            self._limits,
            group_consumer_session_timeout_ms=number("consumer.session.timeout.ms"),
            group_consumer_heartbeat_interval_ms=number("consumer.heartbeat.interval.ms"),
            group_consumer_assignment_interval_ms=number("consumer.assignment.interval.ms"),
        )
