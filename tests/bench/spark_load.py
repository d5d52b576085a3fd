"""What the bench of Spark reads: values of 300 bytes, as JSON or as Avro would have them."""

from __future__ import annotations

import json
import random
import time
from typing import Final

from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.compress import Codec
from tests.bench import raw_frames, raw_loops
from tests.bench.raw_client import connected
from tests.bench.spark_model import Kind

VALUE_BYTES: Final = 300
RECORDS_PER_BATCH: Final = 500
DISTINCT_BATCHES: Final = 8
"""As many different ones, so that no cache sees one batch only."""
PARTITIONS_PER_FRAME: Final = 8
IN_FLIGHT: Final = 4
CODECS: Final = {
    "none": Codec.NONE,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
    "gzip": Codec.GZIP,
}
_AIRPORTS: Final = ("EWR", "JFK", "LGA", "SFO", "ORD", "BOS", "IAH", "MIA", "DFW", "SEA")
_CARRIERS: Final = ("UA", "AA", "DL", "B6", "WN", "EV")


def make_value(rng: random.Random, kind: Kind) -> bytes:
    """A flight in VALUE_BYTES bytes. Avro has no names of fields, so more of it is content."""
    fields: dict[str, str | int | float] = {
        "id": f"{rng.getrandbits(64):016x}",
        "carrier": rng.choice(_CARRIERS),
        "flight": rng.randint(1, 9_999),
        "origin": rng.choice(_AIRPORTS),
        "destination": rng.choice(_AIRPORTS),
        "departure_delay": rng.randint(-10, 180),
        "arrival_delay": rng.randint(-30, 200),
        "distance_miles": rng.randint(90, 4_900),
        "wind_knots": round(rng.uniform(0, 45), 2),
        "updated_by": f"dispatcher-{rng.randint(1, 500)}",
    }
    if kind == "json":
        fields["note"] = ""
        fields["note"] = "x" * (VALUE_BYTES - len(json.dumps(fields)))
        return json.dumps(fields).encode()
    content = "\x0c".join(map(str, fields.values())).encode()
    return content + rng.randbytes((VALUE_BYTES - len(content)) // 2).hex().encode()[
        : VALUE_BYTES - len(content)
    ].ljust(VALUE_BYTES - len(content), b"0")


def make_batches(kind: Kind, codec: str, records_per_batch: int) -> list[bytes]:
    """Different batches, all of as many records."""
    rng = random.Random(20)
    # Of today, else retention takes them away while they are read.
    now_ms = time.time_ns() // 1_000_000
    return [
        bytes(
            encode_batch(
                [
                    NewRecord(now_ms + n, b"N%05d" % rng.randint(0, 9_999), make_value(rng, kind))
                    for n in range(records_per_batch)
                ],
                codec=CODECS[codec],
            )
        )
        for _ in range(DISTINCT_BATCHES)
    ]


def fill(port: int, topic: str, kind: Kind, codec: str, *, records: int, partitions: int) -> int:
    """Produce about so many records, evenly over all partitions; return how many there are."""
    per_batch = max(1, min(RECORDS_PER_BATCH, records // partitions))
    batches = make_batches(kind, codec, per_batch)
    rounds = max(1, round(records / partitions / per_batch))
    with connected("127.0.0.1", port) as connections:
        for first in range(0, partitions, PARTITIONS_PER_FRAME):
            some = range(first, min(first + PARTITIONS_PER_FRAME, partitions))
            frames = [raw_frames.produce_frame(topic, dict.fromkeys(some, b)) for b in batches]
            raw_loops.produce_many(connections, frames, rounds, IN_FLIGHT)
    return rounds * per_batch * partitions
