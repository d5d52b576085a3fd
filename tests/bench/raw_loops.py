"""The loops of the raw client: produce, fetch, commit at a pace, and one record end to end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Final

from tests.bench import raw_frames
from tests.bench.raw_client import RawConnection, pipelined

COORDINATOR_SECONDS_MAX: Final = 60.0
_BASE_OFFSET_BYTES: Final = 8


def produce(
    connections: Sequence[RawConnection],
    topic: str,
    frames: Sequence[bytes],
    count: int,
    in_flight: int,
) -> None:
    """Send `count` of the frames in turn; each has one partition. Raises RuntimeError."""
    at = raw_frames.produce_error_position(topic)

    def check(answer: memoryview) -> None:
        if answer[at] or answer[at + 1]:
            raw_frames.produced(answer)

    pipelined(connections, _in_turn(frames, count), in_flight, check)


def produce_many(
    connections: Sequence[RawConnection], frames: Sequence[bytes], count: int, in_flight: int
) -> None:
    """As `produce`, for frames with several partitions: every answer is decoded."""

    def check(answer: memoryview) -> None:
        raw_frames.produced(answer)

    pipelined(connections, _in_turn(frames, count), in_flight, check)


def fetch(
    connections: Sequence[RawConnection],
    topic: str,
    ends: Mapping[int, int],
    batch_bytes: int,
    batch_records: int,
    partition_bytes_max: int,
    bytes_wanted: int,
) -> int:
    """Read a topic of equal batches over and over; how many bytes of whole batches came.

    Each connection reads its share of the partitions, one request in flight each. A batch that
    was cut off at the end of an answer is asked for again, as every client does.
    """
    shares: list[dict[int, int]] = [{} for _ in connections]
    for index, partition in enumerate(sorted(ends)):
        shares[index % len(shares)][partition] = 0
    share_of = {partition: share for share in shares for partition in share}
    received = 0

    def take(answer: memoryview) -> None:
        nonlocal received
        for entry in raw_frames.fetched(answer):
            records = entry.records
            if not isinstance(records, memoryview) or not records:
                continue
            share, partition = share_of[entry.partition], entry.partition
            base_offset = int.from_bytes(records[:_BASE_OFFSET_BYTES], "big")
            if base_offset != share[partition]:
                raise RuntimeError(f"asked for {share[partition]}, given {base_offset}")
            whole = len(records) // batch_bytes
            received += whole * batch_bytes
            share[partition] += whole * batch_records
            if share[partition] >= ends[partition]:
                share[partition] = 0

    def asked() -> Iterator[bytes]:
        turn = 0
        while received < bytes_wanted:
            yield raw_frames.fetch_frame(
                topic, shares[turn % len(shares)], partition_bytes_max=partition_bytes_max
            )
            turn += 1

    pipelined(connections, asked(), len(connections), take)
    return received


def fetch_small(
    connections: Sequence[RawConnection], frames: Sequence[bytes], count: int, in_flight: int
) -> None:
    """Send `count` of the Fetch frames in turn and look at no record. Raises RuntimeError."""

    def check(answer: memoryview) -> None:
        # Header (correlation id, no tags), throttle time, error code of the request.
        if answer[9] or answer[10]:
            raw_frames.fetched(answer)

    pipelined(connections, _in_turn(frames, count), in_flight, check)


def commit(
    connections: Sequence[RawConnection], frames: Sequence[bytes], count: int, in_flight: int
) -> None:
    """Send `count` of the OffsetCommit frames in turn. Raises RuntimeError."""
    pipelined(connections, _in_turn(frames, count), in_flight, raw_frames.check_committed)


def commit_at_pace(
    connections: Sequence[RawConnection],
    frames: Sequence[bytes],
    per_second: float,
    seconds: float,
) -> int:
    """OffsetCommits evenly spaced, one group per connection; how many were answered well."""
    count = int(per_second * seconds)
    waiting = [False] * len(connections)
    start = time.perf_counter()
    for index in range(count):
        turn = index % len(connections)
        ahead = start + index / per_second - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        if waiting[turn]:
            raw_frames.check_committed(connections[turn].receive())
        connections[turn].send(frames[turn])
        waiting[turn] = True
    for connection, waits in zip(connections, waiting, strict=True):
        if waits:
            raw_frames.check_committed(connection.receive())
    return count


def commit_until_taken(
    connections: Sequence[RawConnection], groups: Sequence[str], frames: Sequence[bytes]
) -> None:
    """One commit of each group, again until accepted: its coordinator may have to load."""
    deadline = time.monotonic() + COORDINATOR_SECONDS_MAX
    for connection, group, frame in zip(cycle(connections), groups, frames, strict=False):
        while True:
            connection.call(raw_frames.find_coordinator_frame(group))
            try:
                raw_frames.check_committed(connection.call(frame))
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                break


def end_to_end_ms(
    producer: RawConnection, consumer: RawConnection, topic: str, records: int
) -> list[float]:
    """Latency of each record, from its send until a waiting Fetch has it, one at a time."""
    frame = raw_frames.produce_frame(topic, {0: raw_frames.make_batch(1, record_bytes=100)})
    latencies = []
    for offset in range(records):
        consumer.send(raw_frames.fetch_frame(topic, {0: offset}, partition_bytes_max=1 << 20))
        start = time.perf_counter()
        producer.send(frame)
        entries = raw_frames.fetched(consumer.receive())
        latencies.append((time.perf_counter() - start) * 1000)
        if not any(entry.records for entry in entries):
            raise RuntimeError(f"the Fetch for offset {offset} came back empty")
        raw_frames.produced(producer.receive())
    return latencies


def produce_at_pace(
    connection: RawConnection, frame: bytes, per_second: float, seconds: float
) -> list[float]:
    """Small produces evenly spaced, one at a time; the latency of each in ms.

    Counted from the moment it was due: a stall is seen by all who would have sent meanwhile.
    """
    latencies = []
    start = time.perf_counter()
    for index in range(int(per_second * seconds)):
        due = start + index / per_second
        ahead = due - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
            due = time.perf_counter()  # what the sleep overslept is not the broker's
        raw_frames.produced(connection.call(frame))
        latencies.append((time.perf_counter() - due) * 1000)
    return latencies


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _in_turn(frames: Sequence[bytes], count: int) -> Iterator[bytes]:
    return (frames[index % len(frames)] for index in range(count))
