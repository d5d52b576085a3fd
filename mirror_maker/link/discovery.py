"""A link learns of its two clusters in rounds, and creates the missing copies.

A round requests all topics of the source and the copies on the target. A response that is the same
as in the round before is not decoded again, so a round without changes costs next to nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from local_cluster.client.model import ClusterMetadata, NewTopic, TopicMetadata, TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.clusters.topic_directory import Directory
from mirror_maker.link.owned_copies import OwnedCopies, copy_pairs
from mirror_maker.link.topic_plan import (
    colliding_topics,
    creation_rounds,
    describes_all,
    grown_topics,
    left_out_topics,
    link_topics,
    missing_topics,
    new_topic,
    select_topics,
)
from mirror_maker.periodic import PeriodicTask
from mirror_maker.ports import Clock, DataSink, DataSource
from mirror_maker.settings import LinkSettings
from mirror_maker.stores.link_stores import LinkStores

DISCOVERY_MS_MIN: Final = 100
"""Shortest time between two rounds, even if a caller hurries."""
ANSWER_LATE_MS: Final = 5_000
"""A cluster that has not answered for this long counts as down; the request itself may take
longer."""

log = logging.getLogger(__name__)


class TopicDiscovery:
    """The rounds of one link; `run` until cancelled."""

    _is_described = True
    """Whether the source describes all topics to copy; else it is unknown what they have."""

    def __init__(
        self,
        settings: LinkSettings,
        target_alias: str,
        flows: Collection[TopicPartition],
        owned_copies: OwnedCopies,
        on_round: Callable[[Iterable[int], bool], None],
        *,
        source: DataSource,
        sink: DataSink,
        directory: Directory,
        stores: LinkStores,
        clock: Clock,
        discovery_ms: int,
        backoff: Backoff,
        on_opened: Callable[[], Awaitable[None]],
    ) -> None:
        """`flows` are the link's flows on this worker: it creates their copies. `owned_copies`
        marks them. `on_round` receives the source's brokers, and whether the directory has changed.
        `on_opened` follows orders in the link's topics of state, before anything is known that
        could be copied.
        """
        self.collisions: Mapping[str, list[str]] = {}
        """Target topics that two source topics would share, so neither is copied."""
        self.wanted: Mapping[str, TopicMetadata] = {}
        """The source topics that the link copies, as last seen."""
        self.left_out: list[str] = []
        """Source topics that match the link's patterns and are not copied."""
        self._settings = settings
        self._source_client = source
        self._sink = sink
        self._directory = directory
        self._stores = stores
        self._clock = clock
        self._discovery_ms = discovery_ms
        self.run = PeriodicTask(
            self._look,
            link=settings.name,
            what_failed="discovery",
            pause=self._pause,
            backoff=backoff,
        ).run
        self._source_failure: str | None = None
        """The error of the last request to the source."""
        self._target_failure: str | None = None
        """The same for the target."""
        self._asked_source_ms: int | None = None
        """When the pending request to the source was sent; None without one."""
        self._asked_target_ms: int | None = None
        self._flows = flows
        self._owned_copies = owned_copies
        self._created: set[str] = set()
        """Topics whose copies were created here and are not marked yet."""
        self._on_round = on_round
        self._on_opened = on_opened
        self._has_opened = False
        self._filter = link_topics(settings, target_alias)
        self._named = set(self._filter.plain_names)
        """Topics that may be missing from a listing: named in the settings, or seen before."""
        self._unseen: list[str] = []
        self._asked: ClusterMetadata | None = None
        """The last response about `_unseen`."""
        self._copies: list[str] = []
        self._source: ClusterMetadata | None = None
        self._target: ClusterMetadata | None = None
        self._compared: tuple[object, object] | None = None
        """The inputs that `_missing` and `_grown` were computed from."""
        self._missing: list[str] = []
        self._grown: Mapping[str, int] = {}

    @property
    def source_failure(self) -> str | None:
        """Return why the source did not answer last time, or that a response is overdue."""
        return self._late(self._asked_source_ms) or self._source_failure

    @property
    def target_failure(self) -> str | None:
        """Return the same for the target."""
        return self._late(self._asked_target_ms) or self._target_failure

    def _late(self, asked_ms: int | None) -> str | None:
        """Return that a response is overdue. A stopped process keeps its connections, so only that
        shows it.
        """
        if asked_ms is None:
            return None
        waited_ms = self._clock.monotonic_ms() - asked_ms
        return f"no answer for {waited_ms // 1000} s" if waited_ms >= ANSWER_LATE_MS else None

    async def _pause(self) -> None:
        await self._clock.sleep(min(DISCOVERY_MS_MIN, self._discovery_ms))
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0, self._discovery_ms - DISCOVERY_MS_MIN) / 1000):
                await self._directory.asked.wait()

    async def _look(self) -> None:
        """Do one round. Raises KafkaError."""
        self._directory.asked.clear()
        try:
            source = await self._look_at_source()
            hidden = await self._find_hidden()
            self._source_failure = None
        except KafkaError as error:
            self._source_failure = str(error)
            raise
        try:
            target = await self._look_at_target(source)
            self._target_failure = None
        except KafkaError as error:
            self._target_failure = str(error)
            raise
        is_changed = self._directory.update(source.topics, target.topics, hidden)
        self._on_round(source.brokers, is_changed)

    async def _look_at_source(self) -> ClusterMetadata:
        before, asked_ms = self._source, self._clock.now_ms()
        source = await self._ask_source(None, before)
        if before is None or source.topics is not before.topics:
            self.wanted = self._without_collisions(select_topics(source, self._filter))
            self._copies = sorted(map(self._settings.copy_name, self.wanted))
            self.left_out = left_out_topics(source, self._filter)
            self._is_described = describes_all(source, self._filter)
            self._named |= self.wanted.keys()
            self._unseen = sorted(self._named - source.topics.keys())
        self._source = source
        if self._is_described:
            self._directory.listing.note(self.wanted, asked_ms)
        return source

    async def _find_hidden(self) -> frozenset[str]:
        """Return the topics that the mirror's principal may not describe. Raises KafkaError.

        A cluster does not list them, as if they did not exist; a lookup by name is refused.
        """
        if not self._unseen:
            return frozenset()
        self._asked = await self._ask_source(self._unseen, self._asked)
        hidden: set[str] = set()
        for name, topic in self._asked.topics.items():
            if topic.error == ErrorCode.topic_authorization_failed:
                hidden.add(name)
            elif name not in self._filter.plain_names:
                self._named.discard(name)  # it was deleted, or is listed next time
        self._unseen = [name for name in self._unseen if name in self._named]
        return frozenset(hidden)

    async def _look_at_target(self, source: ClusterMetadata) -> ClusterMetadata:
        """Return the copies, including those that this worker creates. Raises KafkaError."""
        if not self._has_opened:
            await self._stores.open(source.cluster_id)
            await self._on_opened()
            self._has_opened = True
        self._stores.map_store.check_source(source.cluster_id)
        target = await self._ask_target(self._target)
        if self._compared is None or not (
            self._compared[0] is self.wanted and self._compared[1] is target.topics
        ):
            copy_name = self._settings.copy_name
            self._missing = missing_topics(self.wanted, target, copy_name)
            self._grown = grown_topics(self.wanted, target, copy_name)
            self._compared = self.wanted, target.topics
        if (self._missing or self._grown) and await self._create_copies():
            target = await self._ask_target(target)
        if self._created:
            pairs = copy_pairs(self._created, source.topics, target.topics, self._settings)
            await self._owned_copies.note_created(pairs)
            self._created.clear()
        self._target = target
        return target

    async def _ask_source(
        self, topics: Sequence[str] | None, last: ClusterMetadata | None
    ) -> ClusterMetadata:
        self._asked_source_ms = self._clock.monotonic_ms()
        try:
            return await self._source_client.metadata(topics, last=last)
        finally:
            self._asked_source_ms = None

    async def _ask_target(self, last: ClusterMetadata | None) -> ClusterMetadata:
        self._asked_target_ms = self._clock.monotonic_ms()
        try:
            return await self._sink.metadata(self._copies, last=last)
        finally:
            self._asked_target_ms = None

    def _without_collisions(
        self, wanted: Mapping[str, TopicMetadata]
    ) -> Mapping[str, TopicMetadata]:
        """Drop topics whose copies would have the same name, and log them."""
        name = self._settings.name
        found = colliding_topics(wanted, self._settings.copy_name)
        if found != self.collisions:
            for target, sources in found.items():
                log.error("link %s: not copied, %s would both become %s", name, sources, target)
            self.collisions = found
        colliding = {topic for sources in found.values() for topic in sources}
        return {topic: each for topic, each in wanted.items() if topic not in colliding}

    async def _create_copies(self) -> bool:
        """Create and extend the copies of this worker's flows; return whether anything was
        changed.
        """
        copy_name, link = self._settings.copy_name, self._settings.name
        ours = {at.topic for at in self._flows}
        mine = [name for name in self._missing if name in ours]
        for names in creation_rounds({name: len(self.wanted[name].partitions) for name in mine}):
            answers = await self._sink.create_topics(await self._new_topics(names))
            for name, error in answers.items():
                if error is not None and error.code != ErrorCode.topic_already_exists:
                    log.error("link %s: %s not created: %s", link, name, error)
            created = {copy for copy, error in answers.items() if error is None}
            self._created.update(name for name in names if copy_name(name) in created)
        copies = map(copy_name, ours)
        growing = {copy: self._grown[copy] for copy in copies if copy in self._grown}
        for names in creation_rounds(growing):
            counts = {name: growing[name] for name in names}
            for name, error in (await self._sink.create_partitions(counts)).items():
                if error is not None:
                    log.error("link %s: partitions of %s not created: %s", link, name, error)
        return bool(mine or growing)

    async def _new_topics(self, names: list[str]) -> list[NewTopic]:
        """Return the copies to create for these source topics. Raises KafkaError.

        A topic whose configs the source does not return is left out: a copy with a shorter
        retention than its source loses records.
        """
        settings = self._settings
        new_topics = []
        for name, configs in (await self._source_client.ask_topic_configs(names)).items():
            if isinstance(configs, KafkaError):
                log.error(
                    "link %s: no copy of %s without its configs: %s", settings.name, name, configs
                )
                continue
            new_topics.append(
                new_topic(
                    self.wanted[name], configs, settings.copy_name, settings.replication_factor
                )
            )
        return new_topics
