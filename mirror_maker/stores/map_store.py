"""The offset-map topic of one link, read and written: registration, openings, blocks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.request_batching import Together
from mirror_maker.formats import (
    FlowKey,
    MapTopic,
    Opening,
    Registration,
    Terms,
    encode_record,
    map_topic_name,
)
from mirror_maker.formats.records import MapRecord
from mirror_maker.model import LinkFailedError
from mirror_maker.ports import Clock, DataSink
from mirror_maker.stores.state_topic import StateTopic

SEEN_POLL_MS: Final = 20
SEEN_POLLS_MAX: Final = 100
OPENINGS_PER_WRITE_MAX: Final = 500
"""Of a few hundred bytes each."""

logger = logging.getLogger(__name__)


class MapStore:
    """Reads and writes one link's map topic. Methods raise KafkaError on trouble."""

    def __init__(
        self,
        sink: DataSink,
        *,
        link: str,
        terms: Mapping[str, str],
        worker_id: str,
        replication_factor: int,
        clock: Clock,
        random: Random,
    ) -> None:
        """`terms` are the settings that decide which records are copied, without defaults."""
        self.state = MapTopic()
        self.topic = map_topic_name(link)
        self._link = link
        self._terms = dict(terms)
        self._sink = sink
        self._worker_id = worker_id
        self._clock = clock
        self._random = random
        self.records = StateTopic(
            sink,
            self.topic,
            replication_factor=replication_factor,
            clock=clock,
            replay=self.state.replay,
        )
        self._openings: Together[Opening, None] = Together(
            self._append_openings, count_max=OPENINGS_PER_WRITE_MAX
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

    def new_opening(
        self,
        flow: FlowKey,
        *,
        producer_epoch: int,
        nonce: int,
        target_topic: str,
        source_offset: int,
        target_offset: int,
        has_older_copies: bool = False,
    ) -> Opening:
        """Return an opening by this worker, with the link's producer id; nothing is written."""
        return Opening(
            flow=flow,
            producer_id=self.registration.producer_id,
            producer_epoch=producer_epoch,
            nonce=nonce,
            target_topic=target_topic,
            source_offset=source_offset,
            target_offset=target_offset,
            opened_at_ms=self._clock.now_ms(),
            worker_id=self._worker_id,
            has_older_copies=has_older_copies,
        )

    async def open(self, source_cluster_id: str | None) -> None:
        """Read the topic, which must be there, and have the link registered.

        Raises LinkFailedError where the link was registered for another source cluster, or with
        other terms.
        """
        await self.catch_up()
        if self.state.registration is None:
            await self._register(source_cluster_id or "")
        registration = self.state.registration
        if registration is None:
            raise LinkFailedError(f"{self.topic} does not keep what is written to it")
        await self._agree_on_terms()
        if next(self.state.flows(), None) is None:
            await self._wait_until_seen()
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

    async def _agree_on_terms(self) -> None:
        """The terms under which the link first copied hold for ever: others would make another
        sequence of records of the same source, and what is copied could not be told any more."""
        if self.state.terms is None and self._terms and next(self.state.flows(), None) is None:
            await self.append([Terms(nonce=self.new_nonce(), terms=tuple(self._terms.items()))])
            await self.catch_up()
        terms = self.state.terms or {}
        if terms != self._terms:
            raise LinkFailedError(
                f"link {self._link} was reconfigured: it began to copy with {_shown(terms)}, now "
                f"it has {_shown(self._terms)}; a link of another name starts anew"
            )

    async def _wait_until_seen(self) -> None:
        """Before anything is copied: wait until every broker of the target lists the map topic.

        Whoever reads the target afterwards, at any broker, can then tell our batches from those
        that were born there (`origins.py`). Raises KafkaError where a broker
        is away, or does not list it soon.
        """
        for node_id in (await self._sink.metadata([])).brokers:
            for _ in range(SEEN_POLLS_MAX):
                if self.topic in await self._sink.topic_ids(node_id, [self.topic]):
                    break
                await self._clock.sleep(SEEN_POLL_MS)
            else:
                message = f"broker {node_id} does not list {self.topic}"
                raise KafkaError(ErrorCode.leader_not_available, message)

    async def catch_up(self) -> None:
        """Read everything that was acknowledged before this call."""
        await self.records.catch_up()

    async def append(self, records: Sequence[MapRecord], deleted: Sequence[bytes] = ()) -> None:
        """Write records, then tombstones for the deleted keys; done when acknowledged.

        On KafkaError some may be written. To write a record again does no harm.
        """
        pairs: list[tuple[bytes, bytes | None]] = [encode_record(record) for record in records]
        await self.records.append([*pairs, *((key, None) for key in deleted)])

    async def append_opening(self, opening: Opening) -> None:
        """Write it, in one request with those of other flows that begin now; done when
        acknowledged. It gets a nonce of its own."""
        await self._openings.ask(opening)

    async def _append_openings(self, openings: Sequence[Opening]) -> list[None]:
        # Whoever asked first may be cancelled meanwhile, and the others write again what is on its
        # way. With the nonce of the first writing compaction would leave the later place of the
        # two, and another worker's opening in between would come to hold.
        await self.append([replace(each, nonce=self.new_nonce()) for each in openings])
        return [None] * len(openings)

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


def _shown(terms: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in sorted(terms.items())) or "the defaults"
