"""Records at a pace, and how long each takes until a waiting reader has it: two small processes.

    python -m tests.bench.mirror_latency load PORT TOPIC UNTIL_NS
    python -m tests.bench.mirror_latency read PORT TOPIC FROM_NS UNTIL_NS

A record's value begins with the moment of its sending, in nanoseconds of the monotonic clock,
which all processes of a machine share. The load sleeps until each round is due; the reader's
Fetch waits at the broker. `read` counts what was sent between FROM_NS and UNTIL_NS and prints
JSON: {"records": count, "p50_ms": ..., "p99_ms": ...}. The load ends with a round sent after
UNTIL_NS, which the reader waits for: one that is late must not look like one that is lost.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Final

from local_cluster.records.batch import iter_records
from local_cluster.records.header import iter_headers
from tests.bench import raw_frames
from tests.bench.mirror_load import PARTITIONS, make_record
from tests.bench.raw_client import RawConnection
from tests.bench.raw_loops import percentile

RECORDS_PER_SECOND: Final = 2_000
ROUND_SECONDS: Final = PARTITIONS / RECORDS_PER_SECOND
"""One record to each partition in every round."""
LATE_SECONDS_MAX: Final = 10.0
"""How long a reader waits for what was sent last."""
PARTITION_BYTES_MAX: Final = 1 << 20
STAMP_DIGITS: Final = 20


def load(port: int, topic: str, until_ns: int) -> None:
    """Produce at the pace, one request in flight, until a round was sent after the time."""
    rng = random.Random(3)
    records = [make_record(rng, 0, n) for n in range(200)]
    connection = RawConnection("127.0.0.1", port)
    start = time.perf_counter()
    for turn in range(sys.maxsize):
        ahead = start + turn * ROUND_SECONDS - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        now_ms = time.time_ns() // 1_000_000
        record = records[turn % len(records)]
        sent_ns = time.monotonic_ns()
        stamp = b"%0*d" % (STAMP_DIGITS, sent_ns)
        batch = raw_frames.batch_of(
            record._replace(timestamp_ms=now_ms, value=stamp + (record.value or b""))
        )
        connection.send(raw_frames.produce_frame(topic, dict.fromkeys(range(PARTITIONS), batch)))
        raw_frames.produced(connection.receive())
        if sent_ns >= until_ns:
            return


def read(port: int, topic: str, from_ns: int, until_ns: int) -> dict[str, float]:
    """Latencies in ms of what is sent in that time, as seen at this broker."""
    connection = RawConnection("127.0.0.1", port)
    positions = dict.fromkeys(range(PARTITIONS), 0)
    latencies: list[float] = []
    last_sent = dict.fromkeys(range(PARTITIONS), 0)
    while min(last_sent.values()) < until_ns:
        if time.monotonic_ns() > until_ns + int(LATE_SECONDS_MAX * 1e9):
            raise RuntimeError("what was sent last did not arrive")
        frame = raw_frames.fetch_frame(topic, positions, partition_bytes_max=PARTITION_BYTES_MAX)
        entries = raw_frames.fetched(connection.call(frame))
        now_ns = time.monotonic_ns()
        for entry in entries:
            records = entry.records
            if not isinstance(records, memoryview):
                continue
            for record in iter_records(records):
                stamp = (record.value or b"")[:STAMP_DIGITS]
                # The records that made the topic known have no stamp.
                if record.offset >= positions[entry.partition] and stamp.isdigit():
                    sent_ns = int(stamp)
                    last_sent[entry.partition] = sent_ns
                    if from_ns <= sent_ns < until_ns:
                        latencies.append((now_ns - sent_ns) / 1e6)
            for _, header in iter_headers(records):
                positions[entry.partition] = header.next_offset
    return {
        "records": len(latencies),
        "p50_ms": percentile(latencies, 0.5),
        "p99_ms": percentile(latencies, 0.99),
    }


def main() -> None:
    what, port, topic, *times = sys.argv[1:]
    if what == "load":
        load(int(port), topic, int(times[0]))
    else:
        print(json.dumps(read(int(port), topic, int(times[0]), int(times[1]))))


if __name__ == "__main__":
    main()
