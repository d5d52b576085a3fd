"""The read_committed readers of a simulated cluster, and the judge of its transactions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final

from local_cluster.records.batch import decode_batch
from local_cluster.records.committed import committed_batches
from local_cluster.records.control import read_marker
from local_cluster.records.header import iter_headers
from local_cluster.wire import fetch as fetch_codec
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, READ_COMMITTED
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.cluster.checks import ClusterChecks
from tests.sim.cluster.client import SimClient
from tests.sim.cluster.names import Anomaly, At, Log
from tests.sim.cluster.sim_cluster import SimCluster
from tests.sim.cluster.transactions import SimTransactions

FETCH_VERSION: Final = 13
FETCH_BYTES: Final = 1 << 20
LIST_OFFSETS_VERSION: Final = 6
EARLIEST: Final = -2
"""The timestamp of ListOffsets that stands for the log start."""


class SimReader:
    """A read_committed consumer of one partition, from its log start on."""

    def __init__(self, cluster: SimCluster, at: At) -> None:
        self.at = at
        self.stopping = False
        self.records: list[tuple[int, bytes]] = []
        """Offsets and values that it got, in order."""
        self.offset = 0
        """The fetch position."""
        self.skipped: list[range] = []
        """Offsets that were deleted before it read them."""
        self._cluster = cluster
        self._client = SimClient(cluster)

    async def run(self) -> None:
        """Read until stopped."""
        while not self.stopping:
            with contextlib.suppress(KafkaError, TimeoutError):
                await self._read()
            await asyncio.sleep(self._cluster.random.expovariate(1 / 0.5))

    async def _read(self) -> None:
        entry = fetch_codec.FetchPartition(
            *self.at, -1, self.offset, -1, 0, FETCH_BYTES, self._cluster.topic_id(self.at.topic)
        )
        request = fetch_codec.FetchRequest(
            -1, 0, 0, FETCH_BYTES, READ_COMMITTED, 0, -1, [entry], [], ""
        )
        body = fetch_codec.encode_request(FETCH_VERSION, request)
        frame, position = await self._client.ask_leader(
            self.at, ApiKey.FETCH, FETCH_VERSION, bytes(body)
        )
        _, _, answers = fetch_codec.decode_response(FETCH_VERSION, frame, position)
        for answer in answers:
            if answer.error_code == ErrorCode.offset_out_of_range:
                await self._reset_to_log_start()
            if answer.error_code or not isinstance(answer.records, memoryview):
                continue
            records = answer.records
            for start, header, is_visible in committed_batches(
                records, answer.aborted_transactions or ()
            ):
                if header.next_offset <= self.offset:
                    continue
                begin, self.offset = self.offset, header.next_offset
                if is_visible:
                    # The log may start within a batch; the response has the whole batch.
                    self.records += [r for r in records_of(records, start, header) if r[0] >= begin]

    async def _reset_to_log_start(self) -> None:
        """Do as auto.offset.reset=earliest does."""
        partition = {
            "partition_index": self.at.partition,
            "current_leader_epoch": -1,
            "timestamp": EARLIEST_TIMESTAMP,
        }
        fields = {
            "replica_id": -1,
            "isolation_level": READ_COMMITTED,
            "topics": [{"name": self.at.topic, "partitions": [partition]}],
        }
        api, version = ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION
        body = messages.encode_request(api, version, fields)
        frame, position = await self._client.ask_leader(self.at, api, version, bytes(body))
        answer = messages.decode_response(api, version, frame, position)
        (found,) = answer.topics[0].partitions
        if not found.error_code and found.offset > self.offset:
            self.skipped.append(range(self.offset, found.offset))
            self.offset = found.offset


def records_of(records: Any, start: int, header: Any) -> list[tuple[int, bytes]]:
    """Return the offsets and values of one batch."""
    return [
        (r.offset, r.value) for r in decode_batch(records, start, header) if r.value is not None
    ]


def committed_records(log: memoryview) -> list[tuple[int, bytes]]:
    """Return offsets and values of the committed transactions of a log, by its markers alone."""
    decided: dict[int, bool] = {}
    began: dict[int, list[int]] = {}
    found: list[tuple[int, tuple[int, bytes]]] = []
    for start, header in iter_headers(log):
        if not header.is_control:
            began.setdefault(header.producer_id, []).append(header.base_offset)
            found += [(header.base_offset, record) for record in records_of(log, start, header)]
            continue
        marker = read_marker(log, start, header)
        assert marker is not None, "the log has no other control batches"
        for offset in began.pop(header.producer_id, []):
            decided[offset] = marker.is_commit
    return [record for offset, record in found if decided.get(offset)]


def judge_transactions(
    cluster: SimCluster,
    checks: ClusterChecks,
    readers: Sequence[SimReader],
    transactions: SimTransactions,
) -> None:
    """Check the promises of every transaction. Raises Anomaly."""
    committed: dict[At, list[tuple[int, bytes]]] = {}
    start_offset_max: dict[At, int] = {}
    read: dict[At, list[bytes | None]] = {}
    for at in cluster.partitions_in_zookeeper():
        topic_id = cluster.topic_id(at.topic)
        if at.topic == cluster.topic and topic_id is not None:
            log = checks.committed_of(Log(at, topic_id))
            start_offset_max[at] = log.start_offset_max
            committed[at] = committed_records(memoryview(bytes(log.content)))
            read[at] = [value for _, value in log.without_forgotten(committed[at])]
            if len(set(read[at])) != len(read[at]):
                raise Anomaly(f"{at}: a committed record is read twice")
    for reader in readers:
        if any(skipped.stop > start_offset_max[reader.at] for skipped in reader.skipped):
            raise Anomaly(f"{reader.at}: a reader skipped records that were not deleted")
        could_read = [
            record
            for record in committed[reader.at]
            if record[0] < reader.offset
            and not any(record[0] in skipped for skipped in reader.skipped)
        ]
        if reader.records != could_read:
            raise Anomaly(f"{reader.at}: a reader saw other records than the committed ones")
    visible = {value for values in read.values() for value in values}
    for attempted in transactions.attempted:
        values = {value for written in attempted.values.values() for value in written}
        seen = values & visible
        if attempted.is_committed and seen != values:
            raise Anomaly(f"{sorted(values)} were committed, only {sorted(seen)} are read")
        if not attempted.may_commit and seen:
            raise Anomaly(f"{sorted(seen)} are read and were never committed")
        if seen not in (set(), values):
            raise Anomaly(f"of one transaction of {sorted(values)} only {sorted(seen)} are read")
        for at, written in attempted.values.items():
            order = [value for value in read[at] if value in values]
            if seen and order != written:
                raise Anomaly(f"{at}: {written} are read as {order}")
