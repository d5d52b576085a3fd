"""Fetch sessions with a simulated cluster, as `DataSource` says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from local_cluster.client.fetch_session import FetchSession, SessionRequest, fetch_in_session
from local_cluster.client.model import (
    FetchedPartition,
    FetchPosition,
    SessionAnswer,
    TopicPartition,
)
from local_cluster.fetch_sessions.session_cache import FetchContext
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import (
    NO_SESSION,
    FetchPartition,
    ForgottenPartition,
    PartitionFetchResponse,
    records_size_bytes,
)
from tests.sim.kafka_double.reader import SimReader


class SimSource(SimReader):
    """Reads in fetch sessions as well."""

    async def fetch_in_session(
        self,
        node_id: int,
        session: FetchSession,
        *,
        wait_ms_max: int = 500,
        bytes_min: int = 1,
        bytes_max: int = 52_428_800,
        partition_bytes_max: int = 1_048_576,
        isolation_level: int = 0,
    ) -> SessionAnswer:
        async def send(request: SessionRequest) -> SessionAnswer:
            return await self._fetch_in_session(
                node_id, session, request, wait_ms_max, partition_bytes_max
            )

        session.knows_topic_ids = self._cluster.fetches_by_topic_id
        return await fetch_in_session(session, send)

    async def close_fetch_session(self, node_id: int, session: FetchSession) -> None:
        closing = session.closing_request()
        if closing is None:
            return
        sessions = self._cluster.fetch_sessions(node_id)

        def apply() -> None:
            sessions.open(
                closing.session_id,
                closing.session_epoch,
                (),
                (),
                uses_topic_ids=False,
                now_ms=0,
            )

        await self._exchange(node_id, apply, detached=False)

    async def _fetch_in_session(
        self,
        node_id: int,
        session: FetchSession,
        request: SessionRequest,
        wait_ms_max: int,
        partition_bytes_max: int,
    ) -> SessionAnswer:
        """Each check of the waiting broker is an exchange. So the response may be lost after the
        session has advanced."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_ms_max / 1000
        sessions = self._cluster.fetch_sessions(node_id)
        asked = [
            FetchPartition(
                *("" if request.is_by_id else at.topic, at.partition),
                *(each.leader_epoch, each.offset, each.last_fetched_epoch, -1, partition_bytes_max),
                each.topic_id if request.is_by_id else None,
            )
            for at, each in request.named.items()
        ]
        forgotten = [
            ForgottenPartition("", at.partition, topic_id)
            if request.is_by_id
            else ForgottenPartition(*at)
            for at, topic_id in request.forgotten
        ]
        self._cluster.fetch_names_count += len(asked) + len(forgotten)
        opened: list[FetchContext] = []
        answers: list[SessionAnswer | KafkaError] = []

        def look() -> None:
            now_ms = round(loop.time() * 1000)
            try:
                if not opened:
                    opened.append(
                        sessions.open(
                            request.session_id,
                            request.session_epoch,
                            asked,
                            forgotten,
                            uses_topic_ids=request.is_by_id,
                            now_ms=now_ms,
                        )
                    )
            except KafkaError as error:
                answers.append(error)
                return
            throttle_ms = self._cluster.throttle_ms()
            if throttle_ms:
                # An existing session continues. A new one is not opened: it got no first response.
                kept = NO_SESSION if opened[0].session is None else opened[0].session.id
                answers.append(SessionAnswer(kept, throttle_ms, {}, request.is_by_id))
                return
            is_late = loop.time() >= deadline_s
            if not is_late and all(self._waits(node_id, each) for each in opened[0].partitions):
                return
            results = [self._read_entry(node_id, entry) for entry in opened[0].partitions]
            if is_late or any(
                each.error_code or each.diverging_epoch or records_size_bytes(each.records)
                for each in results
            ):
                by_id = session if request.is_by_id else None
                answers.append(_session_answer(*opened[0].answer(results, now_ms), by_id))

        while True:
            await self._exchange(node_id, look, detached=False)
            if answers:
                if isinstance(answers[0], KafkaError):
                    raise answers[0]
                return answers[0]
            await asyncio.sleep(0.01)

    def _waits(self, node_id: int, entry: FetchPartition) -> bool:
        """Tell whether a read would give no records and no error: most looks of a long poll."""
        topic = entry.topic or self._cluster.topic_name(entry.topic_id) or ""
        try:
            log = self._find_readable(node_id, TopicPartition(topic, entry.partition))
        except KafkaError:
            return False
        if self._cluster.tracks_leader_epochs and entry.current_leader_epoch != log.leader_epoch:
            return False
        return log.is_at_end(entry.fetch_offset, entry.last_fetched_epoch)

    def _read_entry(self, node_id: int, entry: FetchPartition) -> PartitionFetchResponse:
        topic = entry.topic or self._cluster.topic_name(entry.topic_id)
        if topic is None:
            return PartitionFetchResponse(
                "", entry.partition, ErrorCode.unknown_topic_id, topic_id=entry.topic_id
            )
        read = self._read(
            node_id,
            TopicPartition(topic, entry.partition),
            FetchPosition(entry.fetch_offset, entry.current_leader_epoch, entry.last_fetched_epoch),
            entry.partition_bytes_max,
        )
        return PartitionFetchResponse(
            entry.topic,
            entry.partition,
            read.error,
            read.high_watermark,
            read.last_stable_offset,
            read.log_start_offset,
            read.aborted_transactions,
            records=read.records,
            topic_id=entry.topic_id,
            diverging_epoch=read.diverging_epoch,
        )


def _session_answer(
    error: ErrorCode,
    session_id: int,
    told: Sequence[PartitionFetchResponse],
    by_id: FetchSession | None,
) -> SessionAnswer | KafkaError:
    if error:
        return KafkaError(error, "Fetch")
    named = [
        (name, each)
        for each in told
        if (name := by_id.topic_name(each.topic_id) if by_id else each.topic) is not None
    ]
    return SessionAnswer(
        session_id,
        0,
        {
            TopicPartition(name, each.partition): FetchedPartition(
                ErrorCode(each.error_code),
                each.high_watermark,
                each.last_stable_offset,
                each.log_start_offset,
                tuple(each.aborted_transactions or ()),
                each.records if isinstance(each.records, memoryview) else memoryview(b""),
                each.diverging_epoch,
            )
            for name, each in named
        },
        by_id is not None,
    )
