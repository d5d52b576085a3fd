"""Translates the committed offsets of a consumer group across a link, in either direction.

Both functions only read. A failover commits the offsets on the other side.

Guarantees:
- Partitions without a committed offset are left out, as in Kafka.
- An offset that is not mapped yet is `pending` and has no target offset, so nobody commits a guess.
- So is an offset in a topic that was re-created under its name since it was copied.
- An offset is `shared` if the copy may hold records of several origins. It says nothing about the
  other origins' records, and some of them may be unread before it. So the position is the one that
  the group sync of the link's worker has found, or none.
- To the source, an offset is `exact`, or `inexact`: nothing is skipped from there, and some records
  may be read again. Partitions without copies of the link are left out.

Not here: commits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from aggregator.maps.link_map import NO_TOPIC_IDS, TopicIds, TranslationState
from aggregator.maps.translation import TranslatedOffset
from aggregator.ports import ClusterReader
from aggregator.settings import LinkSettings
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import GROUP_KEY_TYPE
from local_cluster.wire.errors import ErrorCode, KafkaError

COORDINATOR_RETRY_SECONDS_MAX: Final = 10.0
"""Seconds for which a moving or loading coordinator is retried."""
COORDINATOR_WAIT_SECONDS_MAX: Final = 1.0
_FIND_COORDINATOR_VERSION_MAX: Final = 3
"""Last version with one key at the top level."""
_OFFSET_FETCH_VERSION_MAX: Final = 7
"""Last version with one group at the top level, and topic names."""
_NO_OFFSET: Final = -1
_MOVING: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)


class SharedPosition(NamedTuple):
    """Where a group may continue in a copy with records of several origins."""

    source_offset: int
    """The group's offset at the link's source when the position was found."""
    target_offset: int


SharedPositions = Mapping[tuple[str, int], SharedPosition]
"""By source topic and partition."""
NO_SHARED_POSITIONS: Final[SharedPositions] = MappingProxyType({})


class OffsetTranslator(Protocol):
    """Translates offsets of links; `translation.LinkMaps` implements it."""

    def translate(
        self, link: str, topic: str, partition: int, offset: int, source_ids: TopicIds
    ) -> TranslatedOffset:
        """Raises KeyError for an unknown link."""
        ...

    def source_position(
        self, link: str, target_topic: str, partition: int, offset: int
    ) -> TranslatedOffset | None:
        """Raises KeyError for an unknown link."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """One committed offset of a group, as its coordinator returns it."""

    topic: str
    partition: int
    offset: int
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTranslation:
    """A group's committed offsets on one side of a link, and their translation to the other."""

    link: str
    group: str
    partitions: tuple[TranslatedOffset, ...]
    """By topic and partition; empty if the group has no committed offsets."""

    @property
    def is_exact(self) -> bool:
        """Whether the group has committed offsets, and every one has an exact translation."""
        return bool(self.partitions) and all(
            part.state is TranslationState.EXACT for part in self.partitions
        )

    @property
    def pending(self) -> tuple[TranslatedOffset, ...]:
        """Offsets that the mirror has not reached yet."""
        return tuple(part for part in self.partitions if part.state is TranslationState.PENDING)

    @property
    def shared(self) -> tuple[TranslatedOffset, ...]:
        """Offsets in copies that may hold records of several origins."""
        return tuple(part for part in self.partitions if part.state is TranslationState.SHARED)

    def target_offsets(self) -> dict[tuple[str, int], int]:
        """Return the offsets to commit on the aggregate, by (topic, partition).

        Pending ones are left out, and shared ones that no worker knows. After an inexact or shared
        one, some records are read again.
        """
        return {
            (part.target_topic, part.partition): part.target_offset
            for part in self.partitions
            if part.target_topic is not None and part.target_offset is not None
        }


async def translate_group(
    source_client: ClusterReader,
    maps: OffsetTranslator,
    link: LinkSettings,
    group: str,
    topics: Collection[str] | None = None,
    shared: SharedPositions = NO_SHARED_POSITIONS,
) -> GroupTranslation:
    """Translate the group's committed offsets in these source topics; None for all topics.

    `shared` are the positions that the group sync of the link has found.

    Raises KeyError for an unknown link, KafkaError if the source does not respond.
    """
    committed = [
        entry
        for entry in await fetch_committed(source_client, group)
        if topics is None or entry.topic in topics
    ]
    # After the offsets: a topic that is re-created in between has another id, so it is pending.
    source_ids = await _topic_ids(source_client, {entry.topic for entry in committed})
    return GroupTranslation(
        link=link.name,
        group=group,
        partitions=tuple(_translate(maps, link, entry, source_ids, shared) for entry in committed),
    )


async def translate_group_back(
    aggregate_client: ClusterReader,
    maps: OffsetTranslator,
    link: LinkSettings,
    group: str,
    topics: Collection[str] | None = None,
) -> GroupTranslation:
    """Translate the group's committed offsets in these topics of the aggregate to the source.

    Raises KeyError for an unknown link, KafkaError if the aggregate does not respond.
    """
    found = (
        maps.source_position(link.name, entry.topic, entry.partition, entry.offset)
        for entry in await fetch_committed(aggregate_client, group)
        if topics is None or entry.topic in topics
    )
    partitions = tuple(each for each in found if each is not None)
    return GroupTranslation(link=link.name, group=group, partitions=partitions)


async def _topic_ids(client: ClusterReader, topics: Collection[str]) -> TopicIds:
    """Return the current ids of the topics that exist. Raises KafkaError."""
    if not topics:
        return NO_TOPIC_IDS
    found = await client.metadata(sorted(topics))
    return {name: topic.topic_id for name, topic in found.topics.items() if not topic.error}


def _translate(
    maps: OffsetTranslator,
    link: LinkSettings,
    entry: CommittedOffset,
    source_ids: TopicIds,
    shared: SharedPositions,
) -> TranslatedOffset:
    answer = maps.translate(link.name, entry.topic, entry.partition, entry.offset, source_ids)
    if link.names.tells_origin(link.source, entry.topic):
        return answer
    known = shared.get((entry.topic, entry.partition))
    # A group that went back since then has unread records before the position.
    is_safe = known is not None and known.source_offset <= entry.offset
    return replace(
        answer,
        state=TranslationState.SHARED,
        target_offset=known.target_offset if known is not None and is_safe else None,
    )


async def fetch_committed(client: ClusterReader, group: str) -> list[CommittedOffset]:
    """Return a group's committed offsets, by topic and partition; empty for an unknown group.

    Raises KafkaError: no coordinator in time, a refusal, or a network error.
    """
    retrying = AsyncRetrying(
        retry=retry_if_exception(lambda e: isinstance(e, KafkaError) and e.code in _MOVING),
        stop=stop_after_delay(COORDINATOR_RETRY_SECONDS_MAX),
        wait=wait_random_exponential(multiplier=0.05, max=COORDINATOR_WAIT_SECONDS_MAX),
        reraise=True,
    )
    committed: list[CommittedOffset] = await retrying(_fetch_committed_once, client, group)
    return committed


async def _fetch_committed_once(client: ClusterReader, group: str) -> list[CommittedOffset]:
    found = await client.call(
        ApiKey.FIND_COORDINATOR,
        {"key": group, "key_type": GROUP_KEY_TYPE},
        version_max=_FIND_COORDINATOR_VERSION_MAX,
    )
    _raise_for(found.error_code, f"coordinator of group {group}")
    fields: Mapping[str, Any] = {"group_id": group, "topics": None, "require_stable": False}
    response = await client.call(
        ApiKey.OFFSET_FETCH,
        fields,
        node_id=int(found.node_id),
        version_max=_OFFSET_FETCH_VERSION_MAX,
    )
    _raise_for(response.error_code, f"offsets of group {group}")
    return sorted(_committed(group, response.topics), key=lambda e: (e.topic, e.partition))


def _committed(group: str, topics: Iterable[Any]) -> Iterable[CommittedOffset]:
    for topic in topics:
        for entry in topic.partitions:
            _raise_for(entry.error_code, f"{group}: {topic.name}-{entry.partition_index}")
            if entry.committed_offset != _NO_OFFSET:
                yield CommittedOffset(
                    topic=str(topic.name),
                    partition=int(entry.partition_index),
                    offset=int(entry.committed_offset),
                    metadata=entry.metadata or "",
                )


def _raise_for(code: ErrorCode, what: str) -> None:
    if code != ErrorCode.none:
        raise KafkaError(code, what)
