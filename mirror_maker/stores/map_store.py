"""The offset-map topic of one link, read and written: registration, openings, blocks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.request_batching import RequestBatcher
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

LISTED_POLL_MS: Final = 20
LISTED_POLLS_MAX: Final = 100
OPENINGS_PER_WRITE_MAX: Final = 500
"""Openings of one write, a few hundred bytes each."""

log = logging.getLogger(__name__)


class MapStore:
    """One link's map topic. Methods raise KafkaError."""

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
        """`terms` are the settings that decide which records are copied, without those at their
        defaults.
        """
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
        self._openings: RequestBatcher[Opening, None] = RequestBatcher(
            self._append_openings, count_max=OPENINGS_PER_WRITE_MAX
        )
        self._registration: Registration | None = None

    @property
    def registration(self) -> Registration:
        """Return the identity under which the link writes. Valid after `open`."""
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
        """Read the topic, which must exist, and register the link if it is new.

        Raises LinkFailedError if the link was registered for another source cluster or with other
        terms.
        """
        await self.catch_up()
        if self.state.registration is None:
            await self._register(source_cluster_id or "")
        else:
            await self._announce(self.state.registration)
        registration = self.state.registration
        if registration is None:
            raise LinkFailedError(f"{self.topic} does not keep what is written to it")
        await self._agree_on_terms()
        if next(self.state.flows(), None) is None:
            await self._wait_until_listed()
        self._registration = registration
        self.check_source(source_cluster_id)

    async def _announce(self, registration: Registration) -> None:
        """Name the link's producer id before others could write with it. It protects, no more."""
        try:
            await self._sink.announce_producer(
                registration.producer_id, registration.producer_epoch
            )
        except KafkaError as error:
            log.info("link %s: its producer id was not announced: %s", self._link, error)

    def check_source(self, source_cluster_id: str | None) -> None:
        """Raise LinkFailedError if the source is not the registered cluster."""
        registered = self.registration.source_cluster_id
        if source_cluster_id and registered and source_cluster_id != registered:
            raise LinkFailedError(
                f"link {self._link} was registered for source cluster {registered}, "
                f"but its bootstrap address leads to cluster {source_cluster_id}"
            )

    async def _agree_on_terms(self) -> None:
        """Write the terms of a new link, or check that they are those under which it first copied.

        Other terms would select another sequence of records, and the existing copies could not be
        told any more.
        """
        if self.state.terms is None and self._terms and next(self.state.flows(), None) is None:
            await self.append([Terms(nonce=self.new_nonce(), terms=tuple(self._terms.items()))])
            await self.catch_up()
        terms = self.state.terms or {}
        if terms != self._terms:
            raise LinkFailedError(
                f"link {self._link} was reconfigured: it began to copy with {_shown(terms)} and is "
                f"configured with {_shown(self._terms)}; use a link of another name for these"
            )

    async def _wait_until_listed(self) -> None:
        """Wait until every broker of the target lists the map topic, before anything is copied.

        A later reader of the target, at any broker, can then tell our batches from native ones
        (`clusters/origins.py`). Raises KafkaError if a broker is down or does not list the topic
        soon.
        """
        for node_id in (await self._sink.metadata([])).brokers:
            for _ in range(LISTED_POLLS_MAX):
                if self.topic in await self._sink.topic_ids(node_id, [self.topic]):
                    break
                await self._clock.sleep(LISTED_POLL_MS)
            else:
                message = f"broker {node_id} does not list {self.topic}"
                raise KafkaError(ErrorCode.leader_not_available, message)

    async def catch_up(self) -> None:
        """Read every record that was acknowledged before this call."""
        await self.records.catch_up()

    async def append(self, records: Sequence[MapRecord], deleted: Sequence[bytes] = ()) -> None:
        """Write records, then tombstones for the deleted keys; return when they are acknowledged.

        If it raises KafkaError, some may have been written. Writing a record again does no harm.
        """
        pairs: list[tuple[bytes, bytes | None]] = [encode_record(record) for record in records]
        await self.records.append([*pairs, *((key, None) for key in deleted)])

    async def append_opening(self, opening: Opening) -> None:
        """Write an opening in one request with other flows' openings; return when it is
        acknowledged.

        The opening gets a nonce of its own.
        """
        await self._openings.ask(opening)

    async def _append_openings(self, openings: Sequence[Opening]) -> list[None]:
        # The first caller may be cancelled while the request is in flight; then the others write
        # the same openings again. With the nonce of the first write, compaction would keep the
        # later of both places, and an opening of another worker in between would come to hold.
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
        log.info("link %s writes as producer %s", self._link, self.state.registration)


def _shown(terms: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in sorted(terms.items())) or "the defaults"
