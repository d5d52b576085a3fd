"""Finds and marks the copies that a link owns; `config_ownership.py` decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from local_cluster.client.model import TopicMetadata
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import MapFormatError, MapTopic, map_topic_name
from mirror_maker.formats.marks import OwnedCopy
from mirror_maker.formats.records import (
    NO_TOPIC_ID,
    OWNED_COPY_KIND,
    REGISTRATION_KIND,
    decode_key,
    encode_key,
)
from mirror_maker.link.config_ownership import (
    CopyPair,
    is_claimed,
    is_created_here,
    ownership_mark,
    why_not_owned,
)
from mirror_maker.model import LinkFailedError
from mirror_maker.ports import LogReader
from mirror_maker.settings import LinkSettings
from mirror_maker.stores.cluster_maps import ClusterMaps
from mirror_maker.stores.map_store import MapStore

Topics = Mapping[str, TopicMetadata]


def copy_pairs(
    topics: Iterable[str], source: Topics, target: Topics, settings: LinkSettings
) -> list[CopyPair]:
    """Return the topics that exist on both sides, with their copies."""
    pairs = []
    for topic in sorted(topics):
        here, there = source.get(topic), target.get(settings.copy_name(topic))
        if here is None or here.error or there is None or there.error:
            continue
        ids = (here.topic_id or NO_TOPIC_ID, there.topic_id or NO_TOPIC_ID)
        pairs.append(CopyPair(topic, ids[0], there.name, ids[1]))
    return pairs


def opposite_marks(at_source: Iterable[MapTopic], target_cluster_id: str) -> list[OwnedCopy]:
    """Return the marks that links from the target have left at the source."""
    return [
        mark
        for state in at_source
        if state.registration is not None
        and state.registration.source_cluster_id == target_cluster_id != ""
        for mark in state.owned_copies()
    ]


class LinkMarks(MapTopic):
    """A map topic reduced to the link's identity and the copies that it owns; maps may be large."""

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        if key is None or decode_key(key).kind in (REGISTRATION_KIND, OWNED_COPY_KIND):
            super().replay(key, value)


async def find_owned(
    settings: LinkSettings, pairs: Sequence[CopyPair], source: LogReader, sink: LogReader
) -> tuple[list[str], dict[str, str]]:
    """Return the topics whose copies the link owns, and why it does not own others; write nothing.

    Raises KafkaError.
    """
    if all(settings.names.tells_origin(settings.source_alias, each.topic) for each in pairs):
        return [each.topic for each in pairs], {}
    at_source, at_target = ClusterMaps(source, LinkMarks), ClusterMaps(sink, LinkMarks)
    try:
        for topics in (at_source, at_target):
            await topics.find()
            await topics.read()
    except (LinkFailedError, MapFormatError) as error:
        raise KafkaError(ErrorCode.unknown_server_error, str(error)) from error
    own = at_target.states().get(map_topic_name(settings.name), MapTopic())
    target_id = own.registration.target_cluster_id if own.registration is not None else ""
    opposite = opposite_marks(at_source.states().values(), target_id)
    owned, not_owned = [], {}
    for pair in pairs:
        reason = why_not_owned(pair, settings, own.owned_copy(pair.copy), opposite)
        if reason is None:
            owned.append(pair.topic)
        else:
            not_owned[pair.copy] = reason
    return owned, not_owned


class OwnedCopies:
    """The owned copies of one link. Methods raise KafkaError, LinkFailedError, MapFormatError."""

    def __init__(self, settings: LinkSettings, store: MapStore, at_source: ClusterMaps) -> None:
        self._settings = settings
        self._store = store
        self._at_source = at_source
        self.not_owned: dict[str, str] = {}
        """Copies that the link does not own, and why, as of the last `find`."""

    async def find(self, pairs: Iterable[CopyPair]) -> list[str]:
        """Return the topics of these pairs whose copies the link owns."""
        settings, state = self._settings, self._store.state
        pairs = list(pairs)
        unmarked = []
        opposite: list[OwnedCopy] = []
        alias = settings.source_alias
        if not all(settings.names.tells_origin(alias, each.topic) for each in pairs):
            await self._at_source.find()
            await self._at_source.read()
            opposite = opposite_marks(
                self._at_source.states().values(), self._store.registration.target_cluster_id
            )
        owned, self.not_owned = [], {}
        for pair in pairs:
            own = state.owned_copy(pair.copy)
            reason = why_not_owned(pair, settings, own, opposite)
            is_own = settings.names.tells_origin(alias, pair.topic)
            if reason is not None:
                self.not_owned[pair.copy] = reason
            elif (
                is_own
                or is_created_here(pair, own)
                or own == ownership_mark(pair, is_created=False)
            ):
                owned.append(pair.topic)
            else:
                # First write the claim, then look at the opposite link again: it may claim it too.
                self.not_owned[pair.copy] = "this link's claim to it is being written"
                unmarked.append(ownership_mark(pair, is_created=False))
        stale = [
            encode_key(mark)
            for mark in state.owned_copies()
            if not mark.is_created and not is_claimed(mark.source_topic, settings)
        ]
        if unmarked or stale:
            await self._store.append(unmarked, stale)
            await self._store.catch_up()
        return owned

    async def note_created(self, pairs: Iterable[CopyPair]) -> None:
        """Mark the copies that the link has created."""
        names, alias = self._settings.names, self._settings.source_alias
        marks = [
            ownership_mark(pair, is_created=True)
            for pair in pairs
            if not names.tells_origin(alias, pair.topic) and not names.is_merged(pair.topic)
        ]
        if marks:
            await self._store.append(marks)
            await self._store.catch_up()
