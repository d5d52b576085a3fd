"""The ACLs and quotas that mirrors wrote in a cluster, read from their topics of rights. Shell."""

from __future__ import annotations

import asyncio
from typing import Final

from local_cluster.client.model import ClusterMetadata
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import MapFormatError
from mirror_maker.formats.written_rights import (
    RIGHTS_TOPIC_PREFIX,
    WrittenRights,
    is_rights_topic,
    rights_topic_name,
)
from mirror_maker.model import LinkFailedError
from mirror_maker.ports import LogReader
from mirror_maker.rights_sync.rights_plan import MirroredRights
from mirror_maker.stores.state_topic import StateReader

_PROBE: Final = rights_topic_name("")
"""A topic of rights that no link has."""


class OthersRights:
    """The topics of rights of all links into one cluster, read again on request."""

    def __init__(self, cluster: LogReader) -> None:
        self._cluster = cluster
        self._listed: ClusterMetadata | None = None
        self._topics: dict[str, tuple[WrittenRights, StateReader]] = {}

    async def read(self) -> MirroredRights:
        """Return what mirrors have written in the cluster. Raises KafkaError.

        A cluster does not list hidden topics, and everything would pass for native. A lookup by
        name of a topic that does not exist is refused like all topics of the prefix.
        """
        probed, listed = await asyncio.gather(
            self._cluster.metadata([_PROBE]), self._cluster.metadata(None, last=self._listed)
        )
        self._listed = listed
        error = probed.topics[_PROBE].error
        if error == ErrorCode.topic_authorization_failed:
            raise KafkaError(error, f"may not describe topics with prefix {RIGHTS_TOPIC_PREFIX}")
        ids = {name: each.topic_id for name, each in listed.topics.items() if is_rights_topic(name)}
        self._topics = {
            name: (state, topic)
            for name, (state, topic) in self._topics.items()
            if name in ids and topic.topic_id in (None, ids[name])
        }
        for name in ids.keys() - self._topics.keys():
            state = WrittenRights()
            self._topics[name] = (state, StateReader(self._cluster, name, state.replay))
        for name, (_, topic) in list(self._topics.items()):
            await self._read(name, topic)
        return MirroredRights.of(state for state, _ in self._topics.values())

    async def _read(self, name: str, topic: StateReader) -> None:
        try:
            await topic.catch_up()
        except (LinkFailedError, MapFormatError) as error:
            del self._topics[name]  # the next round starts it over
            raise KafkaError(ErrorCode.unknown_server_error, str(error)) from error
        except KafkaError as error:
            if error.code != ErrorCode.unknown_topic_or_partition:
                raise
            del self._topics[name]


async def read_written(cluster: LogReader, link: str) -> WrittenRights:
    """Return what a link wrote on its target; nothing if its topic does not exist.

    Raises KafkaError.
    """
    state = WrittenRights()
    try:
        await StateReader(cluster, rights_topic_name(link), state.replay).catch_up()
    except (LinkFailedError, MapFormatError) as error:
        raise KafkaError(ErrorCode.unknown_server_error, str(error)) from error
    except KafkaError as error:
        if error.code != ErrorCode.unknown_topic_or_partition:
            raise
    return state
