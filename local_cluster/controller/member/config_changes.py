"""SHELL: changes of configs as requests: written by any broker, then awaited on this one.

A change goes on when its caller is cancelled or times out.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from local_cluster.controller.member.config_writer import (
    ConfigPlan,
    write_broker_configs,
    write_client_configs,
    write_entity_configs,
    write_topic_configs,
)
from local_cluster.controller.member.metadata_updates import PUBLISH_WAIT_MS_MAX, MetadataUpdates
from local_cluster.controller.member.request_tasks import RequestTasks
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.controller.zk.coordination import Coordination

Configs = Mapping[str, str]


class ConfigChanges:
    """Changes of the configs of one cluster, from one broker."""

    def __init__(
        self,
        coordination: Coordination,
        cache: MetadataCache,
        tasks: RequestTasks,
        updates: MetadataUpdates,
    ) -> None:
        self._coordination = coordination
        self._cache = cache
        self._tasks = tasks
        self._updates = updates

    async def alter_topic(
        self, name: str, plan: ConfigPlan, *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> None:
        """Change a topic's configs, on any broker, and wait until this broker applies them.

        Raises KafkaError: what `plan` raises, unknown_topic_or_partition, request_timed_out.
        """

        def is_applied(wanted: Configs) -> bool:
            topic = self._cache.topics.get(name)
            return topic is None or topic.configs == wanted

        write = write_topic_configs(self._coordination, name, plan, validate_only=validate_only)
        await self._change(write, is_applied, validate_only=validate_only, timeout_ms=timeout_ms)

    async def alter_broker(
        self,
        entity: str,
        plan: ConfigPlan,
        *,
        validate_only: bool = False,
        timeout_ms: int = 30_000,
    ) -> None:
        """Change the dynamic configs of a broker, or of "<default>", in the same way.

        Raises KafkaError: what `plan` raises, request_timed_out.
        """

        def is_applied(wanted: Configs) -> bool:
            return self._cache.broker_configs.get(entity, {}) == wanted

        write = write_broker_configs(self._coordination, entity, plan, validate_only=validate_only)
        await self._change(write, is_applied, validate_only=validate_only, timeout_ms=timeout_ms)

    async def alter_entity(
        self,
        entity: str,
        plan: ConfigPlan,
        *,
        validate_only: bool = False,
        timeout_ms: int = 30_000,
    ) -> None:
        """Change the configs of an entity such as "groups/etl", in the same way.

        Raises KafkaError: what `plan` raises, request_timed_out.
        """

        def is_applied(wanted: Configs) -> bool:
            return self._cache.entity_configs.get(entity, {}) == wanted

        write = write_entity_configs(self._coordination, entity, plan, validate_only=validate_only)
        await self._change(write, is_applied, validate_only=validate_only, timeout_ms=timeout_ms)

    async def alter_client(
        self,
        path: str,
        plan: ConfigPlan,
        *,
        validate_only: bool = False,
        timeout_ms: int = 30_000,
    ) -> None:
        """Change what ZooKeeper has of a user, client id or address: quotas, SCRAM credentials.

        Raises KafkaError: what `plan` raises, request_timed_out.
        """
        write = write_client_configs(self._coordination, path, plan, validate_only=validate_only)
        await self._tasks.run_write(write, timeout_ms)

    async def _change(
        self,
        write: Coroutine[Any, Any, Configs],
        is_applied: Callable[[Configs], bool],
        *,
        validate_only: bool,
        timeout_ms: int,
    ) -> None:
        """Write, then wait until this broker applies what `write` returned."""
        wanted = await self._tasks.run_write(write, timeout_ms)
        if not validate_only:
            # It is written; if there is no controller now, the next one applies it.
            await self._updates.wait_until(lambda: is_applied(wanted), PUBLISH_WAIT_MS_MAX)
