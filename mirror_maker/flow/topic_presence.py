"""Whether both topics of one flow exist and may be seen, as discovery found them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.topic_directory import Directory
from mirror_maker.flow.trouble_causes import recreated_error
from mirror_maker.formats import FlowKey
from mirror_maker.model import FlowState
from mirror_maker.ports import Clock, Lease
from mirror_maker.stores.map_store import MapStore

LEASE_POLL_MS: Final = 100
HURRIES_MAX: Final = 20
"""Rounds of discovery that a starting flow asks for at once; then it waits for the regular ones."""

Report = Callable[[FlowState, str], None]
"""Takes the state of the flow and why it waits."""


class TopicPresence:
    """The topics of one flow."""

    def __init__(
        self,
        source: TopicPartition,
        target: TopicPartition,
        *,
        directory: Directory,
        map_store: MapStore,
        lease: Lease,
        clock: Clock,
    ) -> None:
        self._source = source
        self._target = target
        self._directory = directory
        self._map_store = map_store
        self._lease = lease
        self._clock = clock

    @property
    def hidden(self) -> str | None:
        """The topic that the mirror may not see, in words; None if it sees both."""
        return self._directory.hidden(self._source, self._target)

    @property
    def is_source_gone(self) -> bool:
        return self._directory.source_topic_id(self._source.topic) is None

    @property
    def gone_reason(self) -> str:
        return f"{self._source.topic} does not exist at the source"

    @property
    def lists_topics(self) -> bool:
        """Whether the source lists any topic. A starting broker may not know its topics yet."""
        return bool(self._directory.source)

    def hurry(self) -> None:
        """Ask for a round of discovery."""
        self._directory.hurry()

    def doubt(self, key: FlowKey) -> Exception | None:
        """Return why the topics are not those of the flow; None if they are, or are gone."""
        hidden = self.hidden
        if hidden is not None:
            return KafkaError(ErrorCode.topic_authorization_failed, hidden)
        source_topic_id = self._directory.source_topic_id(self._source.topic)
        target_topic_id = self._directory.target_topic_id(self._target.topic)
        if source_topic_id is None:
            return None
        if source_topic_id != key.source_topic_id:
            return recreated_error(key)
        if target_topic_id is not None and target_topic_id != key.target_topic_id:
            return KafkaError(ErrorCode.unknown_topic_id, f"{self._target.topic} was re-created")
        return None

    async def wait_until_startable(self, report: Report) -> None:
        """Return when both topics have leaders, the link's map is read and the lease is valid.

        Raises KafkaError if the mirror may not see one of the topics.
        """
        directory = self._directory
        hurries = HURRIES_MAX
        was_missing = False
        while True:
            hidden = self.hidden
            if hidden is not None:
                raise KafkaError(ErrorCode.topic_authorization_failed, hidden)
            if directory.is_loaded and self._source.topic not in directory.source:
                # The copy of a topic that is gone is not looked up. The topic may be newer than
                # the last round of discovery, so wait for one more.
                if was_missing:
                    report(FlowState.SOURCE_GONE, self.gone_reason)
                else:
                    was_missing = True
                    report(FlowState.STARTING, f"waits for {self._source} on the source")
                    directory.hurry()
                await directory.next_round()
            elif not self._map_store.is_open or directory.target_leader(self._target) is None:
                report(FlowState.STARTING, f"waits for {self._target} on the target")
                if hurries:
                    hurries -= 1
                    directory.hurry()
                await directory.next_round()
            elif directory.source_leader(self._source) is None:
                report(FlowState.STARTING, f"waits for {self._source} on the source")
                await directory.next_round()
            elif not self._lease.is_valid():
                report(FlowState.STARTING, "waits for the group of workers")
                await self._clock.sleep(LEASE_POLL_MS)
            else:
                return
