"""The offset-map topic of one link, read and written: registration, openings, blocks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import Random

from .formats import MapTopic, Registration, encode_record, map_topic_name
from .formats.records import MapRecord
from .model import LinkFailedError
from .ports import Clock, DataSink
from .state_topic import StateTopic

logger = logging.getLogger(__name__)


class MapStore:
    """Reads and writes one link's map topic. Methods raise KafkaError on trouble."""

    def __init__(
        self,
        sink: DataSink,
        *,
        link: str,
        worker_id: str,
        replication_factor: int,
        clock: Clock,
        random: Random,
    ) -> None:
        self.state = MapTopic()
        self.topic = map_topic_name(link)
        self._link = link
        self._sink = sink
        self._worker_id = worker_id
        self._clock = clock
        self._random = random
        self._records = StateTopic(
            sink,
            self.topic,
            replication_factor=replication_factor,
            clock=clock,
            replay=self.state.replay,
        )
        self._registration: Registration | None = None

    @property
    def registration(self) -> Registration:
        """Who the link writes as. Only after `open`."""
        assert self._registration is not None, "the map store is not open"
        return self._registration

    @property
    def is_open(self) -> bool:
        return self._registration is not None

    def new_nonce(self) -> int:
        return self._random.getrandbits(63)

    async def open(self, source_cluster_id: str | None) -> None:
        """Make the topic if need be, read it, and have the link registered.

        Raises LinkFailedError where the link was registered for another source cluster.
        """
        await self._records.ensure()
        await self.catch_up()
        if self.state.registration is None:
            await self._register(source_cluster_id or "")
        registration = self.state.registration
        if registration is None:
            raise LinkFailedError(f"{self.topic} does not keep what is written to it")
        self._registration = registration
        self.check_source(source_cluster_id)

    def check_source(self, source_cluster_id: str | None) -> None:
        """Raises LinkFailedError where the source is not the cluster that was registered."""
        registered = self.registration.source_cluster_id
        if source_cluster_id and registered and source_cluster_id != registered:
            raise LinkFailedError(
                f"link {self._link} was registered for source cluster {registered}, "
                f"but its bootstrap address leads to {source_cluster_id}"
            )

    async def catch_up(self) -> None:
        """Read everything that was acknowledged before this call."""
        await self._records.catch_up()

    async def append(self, records: Sequence[MapRecord], deleted: Sequence[bytes] = ()) -> None:
        """Write records, then tombstones for the deleted keys; done when acknowledged.

        On KafkaError some may be written. To write a record again does no harm.
        """
        pairs: list[tuple[bytes, bytes | None]] = [encode_record(record) for record in records]
        await self._records.append([*pairs, *((key, None) for key in deleted)])

    async def _register(self, source_cluster_id: str) -> None:
        target_cluster_id = (await self._sink.metadata([])).cluster_id or ""
        producer_id, producer_epoch = await self._sink.init_producer_id()
        registration = Registration(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            link=self._link,
            source_cluster_id=source_cluster_id,
            target_cluster_id=target_cluster_id,
            registered_at_ms=self._clock.now_ms(),
            worker_id=self._worker_id,
        )
        await self.append([registration])
        await self.catch_up()
        logger.info("link %s writes as producer %s", self._link, self.state.registration)
