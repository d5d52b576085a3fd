"""Produce the records of tests/golden/kafka_log to a Kafka 4.3.0.

Start Kafka with log.index.interval.bytes=400 and run
`python tests/golden/generate/kafka_log.py 127.0.0.1:9092`. Then stop Kafka cleanly and copy the
directory golden-0. `internal.segment.bytes` makes Kafka roll segments this small.
"""

from __future__ import annotations

import sys

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_TIMESTAMP_MS = 1357016400000


def main(bootstrap: str) -> None:
    config = {"internal.segment.bytes": "6000", "index.interval.bytes": "400"}
    created = AdminClient({"bootstrap.servers": bootstrap}).create_topics(
        [NewTopic("golden", 1, 1, config=config)]
    )
    created["golden"].result()
    count = 0
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 0,
                "batch.num.messages": 5,
            }
        )
        for step in range(30):
            for _ in range(1 + step % 4):
                producer.produce(
                    "golden",
                    key=b"k%d" % (count % 7),
                    value=b"%s-%d-" % (codec.encode(), count) + b"x" * (count % 90),
                    timestamp=FIRST_TIMESTAMP_MS + count * 1000 - (count % 5) * 3500,
                    headers=[("n", str(count).encode())] if count % 3 == 0 else None,
                )
                count += 1
            producer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
