"""Reads a filled topic from its start to its end, in a process of its own.

    python -m tests.bench.reader PORT TOPIC RECORDS

Prints a line when it begins, and its MB/s when it is done.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from tests.bench import raw_frames, raw_loops
from tests.bench.filled import BATCH_BYTES, PARTITIONS
from tests.bench.raw_client import connected

PARTITION_BYTES_MAX: Final = 1 << 20


def main() -> None:
    port, topic, records = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    batch_records = raw_frames.records_that_fit(BATCH_BYTES)
    batch_bytes = len(raw_frames.make_batch(batch_records))
    ends = dict.fromkeys(range(PARTITIONS), records // PARTITIONS)
    with connected("127.0.0.1", port) as connections:
        print("reading", flush=True)
        start = time.perf_counter()
        byte_count = raw_loops.fetch(
            connections,
            topic,
            ends,
            batch_bytes,
            batch_records,
            PARTITION_BYTES_MAX,
            records // batch_records * batch_bytes,
        )
        print(byte_count / (time.perf_counter() - start) / 1e6)


if __name__ == "__main__":
    main()
