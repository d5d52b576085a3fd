"""The demo with few flights, and with an aggregate whose log is falsified before the audit.

Run as a script by `test_audit_detects.py`, because the demo owns its process: signals, Spark, and
standard output. Modes: `clean`, `tamper` (drop one record, double another), `fail`, and `secure`
(certificates and passwords of its own; what brokers deny is printed on standard error).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, decode_batch, encode_batch
from local_cluster.records.compress import Codec
from local_cluster.records.header import CONTROL_BIT, iter_headers
from tests.support.producing import produce_once
from topology.demo.mirrored import MirrorStalledError
from topology.demo.run import run_demo
from topology.demo.steps import BeforeAudit
from topology.deployment.deployment import Deployment
from topology.deployment.state_dir import StateDir

FLIGHTS_MAX = 400
DROPPED = TopicPartition("jfk.flights", 1)
DOUBLED = TopicPartition("ewr.flights", 2)
SEGMENT = "00000000000000000000.log"


def segments_of(state: StateDir, at: TopicPartition) -> list[Path]:
    """Return one segment of each replica."""
    return sorted(state.data_dir.glob(f"nyc/**/{at.topic}-{at.partition}/{SEGMENT}"))


def drop_record(path: Path) -> int:
    """Remove the last record of the first batch in place; return its offset.

    The rest is compressed harder, and a control batch fills the space up to the next batch. So the
    log is whole and only the record is gone.
    """
    log = path.read_bytes()
    position, header = next(iter_headers(log))
    records = decode_batch(log, position, header)
    kept = [NewRecord(*record[1:]) for record in records[:-1]]
    batch = encode_batch(kept, base_offset=header.base_offset, codec=Codec.ZSTD)
    room = header.size_bytes - len(batch)
    for padding in range(room):
        filler = encode_batch(
            [NewRecord(0, b"\0\0\0\1", bytes(padding))],
            base_offset=header.last_offset,
            attributes=CONTROL_BIT,
        )
        if len(filler) == room:
            break
    else:
        raise AssertionError(f"{room} bytes have no room for a control batch")
    with path.open("r+b") as file:
        file.write(batch + filler)
    return records[-1].offset


async def double_record(bootstrap: str, path: Path) -> tuple[int, int]:
    """Produce a record of the aggregate a second time; return its offset and the second one's."""
    log = path.read_bytes()
    position, header = next(iter_headers(log))
    record = decode_batch(log, position, header)[header.records_count // 2]
    async with KafkaClient(bootstrap) as client:
        leader = (await client.metadata([DOUBLED.topic])).topics[DOUBLED.topic]
        produced = await produce_once(
            client,
            leader.partitions[DOUBLED.partition].leader,
            DOUBLED,
            encode_batch([NewRecord(*record[1:])]),
        )
    assert not produced.error, produced
    return record.offset, produced.base_offset


def tamper(deployment: Deployment, state: StateDir) -> None:
    """Falsify the aggregate's log, and print the changes on standard error."""
    (dropped,) = {drop_record(path) for path in segments_of(state, DROPPED)}
    original, copy = asyncio.run(
        double_record(deployment.cluster("nyc").bootstrap, segments_of(state, DOUBLED)[0])
    )
    done = {"dropped": dropped, "original": original, "copy": copy}
    sys.stderr.write(f"\ntampered {json.dumps(done)}\n")


def fail(deployment: Deployment, state: StateDir) -> None:
    raise MirrorStalledError("a failure made by a test")


def report_denials(deployment: Deployment, state: StateDir) -> None:
    """Print what brokers denied before Spark reads."""
    logs = [path.read_text() for path in state.logs_dir.glob("broker-*.log")]
    denied = [line for log in logs for line in log.splitlines() if "Denied: principal" in line]
    sys.stderr.write(f"\ndenied {json.dumps({'brokers': len(logs), 'lines': denied})}\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=[*BEFORE_AUDIT])
    parser.add_argument("topology", type=Path)
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    return run_demo(
        out=arguments.directory / "out",
        keep=False,
        output="json",
        state_dir=arguments.directory / "state",
        topology=arguments.topology,
        flights_max=FLIGHTS_MAX,
        before_audit=BEFORE_AUDIT[arguments.mode],
        with_own_secrets=arguments.mode == "secure",
    )


BEFORE_AUDIT: Final[dict[str, BeforeAudit | None]] = {
    "clean": None,
    "tamper": tamper,
    "fail": fail,
    "secure": report_denials,
}

if __name__ == "__main__":
    sys.exit(main())
