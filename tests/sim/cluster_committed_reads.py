"""What read_committed readers of a simulated cluster see, and what was promised of it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from local_cluster.records.batch import decode_batch
from local_cluster.records.committed import committed_batches
from local_cluster.records.control import read_marker
from local_cluster.records.header import iter_headers
from local_cluster.wire import fetch as fetch_codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import KafkaError

from .cluster_checks import Anomaly, At, Log
from .cluster_client import SimClient

if TYPE_CHECKING:
    from .cluster_transactions import SimTransactions
    from .cluster_world import SimWorld

FETCH_VERSION: Final = 13
FETCH_BYTES: Final = 1 << 20


class SimReader:
    """A read_committed consumer of one partition, from its beginning on."""

    def __init__(self, world: SimWorld, at: At) -> None:
        self.at = at
        self.stopping = False
        self.values: list[bytes] = []
        """What it was given, in order."""
        self._world = world
        self._client = SimClient(world)
        self._offset = 0

    async def run(self) -> None:
        """Read until it is stopped."""
        while not self.stopping:
            with contextlib.suppress(KafkaError, TimeoutError):
                await self._read()
            await asyncio.sleep(self._world.random.expovariate(1 / 0.5))

    async def _read(self) -> None:
        entry = fetch_codec.FetchPartition(
            *self.at, -1, self._offset, -1, 0, FETCH_BYTES, self._world.topic_id(self.at.topic)
        )
        request = fetch_codec.FetchRequest(
            -1, 0, 0, FETCH_BYTES, fetch_codec.READ_COMMITTED, 0, -1, [entry], [], ""
        )
        body = fetch_codec.encode_request(FETCH_VERSION, request)
        frame, position = await self._client.ask_leader(
            self.at, ApiKey.FETCH, FETCH_VERSION, bytes(body)
        )
        _, _, answers = fetch_codec.decode_response(FETCH_VERSION, frame, position)
        for answer in answers:
            if answer.error_code or not isinstance(answer.records, memoryview):
                continue
            records = answer.records
            for start, header, is_visible in committed_batches(
                records, answer.aborted_transactions or ()
            ):
                if header.next_offset <= self._offset:
                    continue
                self._offset = header.next_offset
                if is_visible:
                    self.values += values_of(records, start, header)


def values_of(records: Any, start: int, header: Any) -> list[bytes]:
    """The values of one batch."""
    return [r.value for r in decode_batch(records, start, header) if r.value is not None]


def committed_values(log: memoryview) -> list[bytes]:
    """Values of committed transactions in a log, by its markers alone."""
    decided: dict[int, bool] = {}
    began: dict[int, list[int]] = {}
    found: list[tuple[int, bytes]] = []
    for start, header in iter_headers(log):
        if not header.is_control:
            began.setdefault(header.producer_id, []).append(header.base_offset)
            values = values_of(log, start, header)
            found += [(header.base_offset, value) for value in values]
            continue
        marker = read_marker(log, start, header)
        assert marker is not None, "no other control batches are written"
        for offset in began.pop(header.producer_id, []):
            decided[offset] = marker.is_commit
    return [value for offset, value in found if decided.get(offset)]


def judge_transactions(world: SimWorld, transactions: SimTransactions) -> None:
    """What was promised of every transaction. Raises Anomaly."""
    read: dict[At, list[bytes]] = {}
    for at in world.partitions_in_zookeeper():
        topic_id = world.topic_id(at.topic)
        if at.topic == world.topic and topic_id is not None:
            log = world.checks.committed.get(Log(at, topic_id), bytearray())
            read[at] = committed_values(memoryview(log))
            if len(set(read[at])) != len(read[at]):
                raise Anomaly(f"{at}: a committed record is read twice")
    for reader in world.readers:
        if reader.values != read[reader.at][: len(reader.values)]:
            raise Anomaly(f"{reader.at}: a reader saw other records than were committed in the end")
    visible = {value for values in read.values() for value in values}
    for attempted in transactions.attempted:
        values = {value for written in attempted.values.values() for value in written}
        seen = values & visible
        if attempted.is_committed and seen != values:
            raise Anomaly(f"of {sorted(values)}, which were committed, {sorted(seen)} are read")
        if not attempted.may_commit and seen:
            raise Anomaly(f"{sorted(seen)} are read, which nobody committed")
        if seen not in (set(), values):
            raise Anomaly(f"of one transaction, {sorted(values)}, {sorted(seen)} are read")
        for at, written in attempted.values.items():
            order = [value for value in read[at] if value in values]
            if seen and order != written:
                raise Anomaly(f"{at}: {written} are read as {order}")
