"""What a tiny batch costs the mirror in CPU, copied as it is and coalesced.

    python -m tests.bench.bench_coalescing [--batches N] [--records N] [--codec lz4] [--profile]

One flow's whole way through the mirror's core, without the network: select, prepare, release,
take, seal, acknowledge, map, receipts. Prints CPU microseconds per source batch, the least of some
rounds. What the shells around it cost (a Produce per batch and partition) comes on top, and is paid
per batch of the target.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import random
import sys
import time
import uuid
from typing import Final

from local_cluster.records import header as h
from local_cluster.records.batch import encode_batch
from local_cluster.records.compress import Codec
from mirror_maker.copy.open_block import OpenBlock
from mirror_maker.copy.receipts import FlowReceipts
from mirror_maker.copy.replicator import PROBATION_BATCHES, PartitionReplicator
from mirror_maker.formats import FlowKey, OffsetMap
from mirror_maker.formats.receipts import encode_receipts, flow_id
from tests.bench.mirror_load import make_record

ROUNDS: Final = 7
FETCH_BYTES: Final = 2 * 1024 * 1024
PENDING_BYTES_MAX: Final = 1 << 40
"""No back-pressure: the bench acknowledges at once."""
_FLOW: Final = FlowKey("t", 0, uuid.UUID(int=1), uuid.UUID(int=2))


def make_fetches(batches: int, records: int, codec: int) -> list[bytearray]:
    """Fetch answers of 2 MiB with so many batches in all, offsets from 0."""
    rng = random.Random(5)
    fetches = [bytearray()]
    offset = 0
    for number in range(batches):
        made = [make_record(rng, 1_700_000_000_000 + number, n) for n in range(records)]
        batch = encode_batch(made, base_offset=offset, codec=codec)
        if len(fetches[-1]) + len(batch) > FETCH_BYTES:
            fetches.append(bytearray())
        fetches[-1] += batch
        offset += records
    return fetches


def copy(
    fetches: list[bytearray], *, coalesces: bool, has_receipts: bool = True
) -> tuple[int, int]:
    """Take all of it through one flow; (records, batches written)."""
    receipts = FlowReceipts(flow_id(_FLOW, 7), 0, 0)
    block = OpenBlock(
        flow=_FLOW,
        target_topic="a.t",
        producer_id=7,
        producer_epoch=0,
        nonce=1,
        source_start=0,
        target_start=0,
        next_sequence=0,
    )
    replicator = PartitionReplicator(
        producer_id=7,
        producer_epoch=0,
        source_next=0,
        next_sequence=0,
        block=block,
        offset_map=OffsetMap(0, 0),
        pending_bytes_max=PENDING_BYTES_MAX,
        coalesces=coalesces,
        receipts=receipts if has_receipts else None,
    )
    target_next = written = 0
    for fetched in fetches:
        replicator.accept(memoryview(fetched), ())
        replicator.release(replicator.accepted)
        while (outgoing := replicator.take()) is not None:
            replicator.acknowledge(outgoing, target_next)
            target_next += outgoing.prepared.records_count
            written += 1
        for entry in receipts.take():
            encode_receipts(entry)
    return target_next, written


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_coalescing")
    parser.add_argument("--batches", type=int, default=30_000)
    parser.add_argument("--records", type=int, default=1, help="of each batch")
    parser.add_argument("--codec", default="lz4", choices=[each.name.lower() for each in Codec])
    parser.add_argument("--profile", action="store_true", help="where the time goes, coalesced")
    arguments = parser.parse_args()
    codec = Codec[arguments.codec.upper()]
    fetches = make_fetches(arguments.batches, arguments.records, codec)
    size_bytes = sum(len(each) for each in fetches)
    print(
        f"{arguments.batches:,} batches of {arguments.records} record(s), {codec.name.lower()}, "
        f"{size_bytes / arguments.batches:.0f} bytes each, header of {h.HEADER_BYTES} included; "
        f"the first {PROBATION_BATCHES} of the target are on probation"
    )
    for coalesces, has_receipts in ((False, False), (False, True), (True, True)):
        best = float("inf")
        for _ in range(ROUNDS):
            copies = [bytearray(each) for each in fetches]
            start = time.process_time()
            records, written = copy(copies, coalesces=coalesces, has_receipts=has_receipts)
            best = min(best, time.process_time() - start)
        assert records == arguments.batches * arguments.records
        name = ("coalesced" if coalesces else "as they are") + (
            ", receipts" if has_receipts else ""
        )
        print(
            f"{name}: {best / arguments.batches * 1e6:.2f} CPU us per source batch, "
            f"{best / records * 1e6:.2f} per record; {written:,} batches written"
        )
    if arguments.profile:
        with cProfile.Profile() as profile:
            copy([bytearray(each) for each in fetches], coalesces=True)
        pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(20)
    return 0


if __name__ == "__main__":
    sys.exit(main())
