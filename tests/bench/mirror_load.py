"""What the bench of the mirror mirrors: JSON records of about 450 bytes, in batches, lz4."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from typing import Final

from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.compress import Codec
from tests.bench import raw_frames, raw_loops
from tests.bench.mirror_model import Batches
from tests.bench.raw_client import connected

PARTITIONS: Final = 4
IN_FLIGHT: Final = 8
DISTINCT_BATCHES: Final = 16
"""As many different ones, so that no cache sees one batch only."""
_BATCH_BYTES: Final[dict[Batches, int]] = {"256k": 262_144, "16k": 16_384, "single": 0}
_AIRPORTS: Final = ("EWR", "JFK", "LGA", "SFO", "ORD", "BOS", "IAH", "MIA", "DFW", "SEA")


@dataclass(frozen=True, slots=True)
class FilledTopic:
    """A topic to be caught up with."""

    name: str
    records: int
    size_bytes: int
    """Of its batches, compressed."""


def make_record(rng: random.Random, now_ms: int, serial: int) -> NewRecord:
    """A flight, as an application would write it: about 450 bytes of JSON with a key."""
    flight = {
        "id": f"{rng.getrandbits(64):016x}",
        "serial": serial,
        "carrier": rng.choice(("UA", "AA", "DL", "B6", "WN", "EV")),
        "flight": rng.randint(1, 9_999),
        "tail_number": f"N{rng.randint(100, 999)}{rng.choice('ABCDEFGH')}{rng.choice('JKLMNP')}",
        "origin": rng.choice(_AIRPORTS),
        "destination": rng.choice(_AIRPORTS),
        "scheduled_departure": f"2026-11-{rng.randint(1, 28):02d}T{rng.randint(0, 23):02d}:00:00Z",
        "departure_delay_minutes": rng.randint(-10, 180),
        "arrival_delay_minutes": rng.randint(-30, 200),
        "distance_miles": rng.randint(90, 4_900),
        "passengers": rng.randint(20, 350),
        "gate": f"{rng.choice('ABCDE')}{rng.randint(1, 60)}",
        "weather": {
            "temperature_celsius": round(rng.uniform(-15, 38), 2),
            "wind_knots": round(rng.uniform(0, 45), 2),
            "visibility_miles": round(rng.uniform(0.1, 10), 1),
        },
        "updated_by": f"dispatcher-{rng.randint(1, 500)}",
    }
    return NewRecord(now_ms, str(flight["tail_number"]).encode(), json.dumps(flight).encode())


def make_batches(kind: Batches) -> list[tuple[bytes, int]]:
    """(batch, its records): as many records as compress to about the size of the kind."""
    rng = random.Random(7)
    # Of today, else retention takes them away while they are read.
    now_ms = time.time_ns() // 1_000_000
    count = 1
    if _BATCH_BYTES[kind]:
        probe = encode_batch([make_record(rng, now_ms, n) for n in range(500)], codec=Codec.LZ4)
        count = max(1, _BATCH_BYTES[kind] * 500 // len(probe))
    batches = []
    for _ in range(DISTINCT_BATCHES):
        records = [make_record(rng, now_ms, n) for n in range(count)]
        batches.append((bytes(encode_batch(records, codec=Codec.LZ4)), count))
    return batches


def fill(port: int, topic: str, kind: Batches, megabytes: int) -> FilledTopic:
    """Produce so many compressed megabytes, evenly over the partitions of an existing topic."""
    batches = make_batches(kind)
    frames = [
        raw_frames.produce_frame(topic, dict.fromkeys(range(PARTITIONS), batch))
        for batch, _ in batches
    ]
    size_bytes = sum(len(batch) for batch, _ in batches) * PARTITIONS
    rounds = max(1, round(megabytes * 1e6 / size_bytes))
    with connected("127.0.0.1", port) as connections:
        raw_loops.produce_many(connections, frames, rounds * len(frames), IN_FLIGHT)
    records = sum(count for _, count in batches) * PARTITIONS * rounds
    return FilledTopic(topic, records, size_bytes * rounds)
