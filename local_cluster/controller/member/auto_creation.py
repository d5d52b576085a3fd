"""Creates topics on first use, each once, through the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from local_cluster.controller.decisions.auto_created_topics import auto_topic_spec
from local_cluster.controller.member.cluster_member import ClusterMember
from local_cluster.controller.member.inter_broker import create_topic_at
from local_cluster.controller.member.request_tasks import RequestTasks
from local_cluster.controller.model.cluster_image import NO_CONTROLLER
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.controller.model.topic_requests import TopicSpec, topic_name_problem
from local_cluster.network import ConnectToPeer
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import ErrorCode, KafkaError

AUTO_CREATE_TIMEOUT_MS: Final = 5_000


class AutoCreation:
    """The auto-creation of one broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        cache: MetadataCache,
        member: ClusterMember,
        tasks: RequestTasks,
        create_here: Callable[[TopicSpec, int], Awaitable[KafkaError | None]],
        connect: ConnectToPeer,
    ) -> None:
        """`create_here` creates a topic as the controller, with a timeout in milliseconds."""
        self._settings = settings
        self._cache = cache
        self._member = member
        self._tasks = tasks
        self._create_here = create_here
        self._connect = connect
        self._creations: dict[str, asyncio.Task[KafkaError | None]] = {}

    async def create(self, name: str) -> KafkaError | None:
        """Create a topic that a client used; return None once this broker knows it.

        Concurrent calls for one topic create it once.
        """
        problem = topic_name_problem(name)
        if problem is not None:
            return KafkaError(ErrorCode.invalid_topic_exception, problem)
        creation = self._creations.get(name)
        if creation is None:
            creation = self._tasks.start(self._create(name))
            self._creations[name] = creation
            creation.add_done_callback(lambda _: self._creations.pop(name))
        return await asyncio.shield(creation)

    async def _create(self, name: str) -> KafkaError | None:
        spec = auto_topic_spec(name, self._settings)
        try:
            error = await self._create_anywhere(spec)
        except KafkaError as refusal:
            error = refusal
        if error is not None and error.code != ErrorCode.topic_already_exists:
            return error
        if await self._member.updates.wait_until(
            lambda: name in self._cache.topics, AUTO_CREATE_TIMEOUT_MS
        ):
            return None
        return KafkaError(ErrorCode.leader_not_available, f"topic '{name}' is being created")

    async def _create_anywhere(self, spec: TopicSpec) -> KafkaError | None:
        if self._member.controller is not None:
            return await self._create_here(spec, AUTO_CREATE_TIMEOUT_MS)
        controller = self._cache.brokers.get(self._cache.controller_id)
        if self._cache.controller_id == NO_CONTROLLER or controller is None:
            return KafkaError(ErrorCode.leader_not_available, "no controller is known")
        return await create_topic_at(
            controller,
            self._settings.inter_broker_listener,
            spec,
            AUTO_CREATE_TIMEOUT_MS,
            connect=self._connect,
        )
