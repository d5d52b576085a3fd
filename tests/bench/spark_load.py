"""What the bench of Spark reads: flights in values of 300 bytes, as JSON or as framed Avro.

Avro values have the header of a schema registry: a zero byte and a schema id of four bytes.
"""

from __future__ import annotations

import io
import json
import random
import struct
import time
from collections.abc import Mapping
from typing import Final

from fastavro import parse_schema, schemaless_writer

from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.compress import Codec
from spark_global.values.header import MAGIC_BYTE
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
_TYPES: Final = {
    "id": "string",
    "carrier": "string",
    "flight": "int",
    "origin": "string",
    "destination": "string",
    "departure_delay": "int",
    "arrival_delay": "int",
    "distance_miles": "int",
    "wind_knots": "double",
    "updated_by": "string",
    "note": "string",
}
SCHEMA: Final = parse_schema(
    {
        "type": "record",
        "name": "Flight",
        "fields": [{"name": name, "type": kind} for name, kind in _TYPES.items()],
    }
)
SCHEMA_ID: Final = 1

Field = str | int | float


def make_value(rng: random.Random, kind: Kind) -> bytes:
    """Return a flight in VALUE_BYTES bytes. Avro has no names of fields, so its note is longer."""
    fields: dict[str, Field] = {
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
    return _avro_value(rng, fields)


def _avro_value(rng: random.Random, fields: Mapping[str, Field]) -> bytes:
    # The length of so long a note takes one byte more than that of an empty one.
    note_bytes = VALUE_BYTES - len(_framed({**fields, "note": ""})) - 1
    return _framed({**fields, "note": rng.randbytes(note_bytes).hex()[:note_bytes]})


def _framed(flight: Mapping[str, Field]) -> bytes:
    output = io.BytesIO()
    output.write(struct.pack(">bI", MAGIC_BYTE, SCHEMA_ID))
    schemaless_writer(output, SCHEMA, flight)
    return output.getvalue()


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
