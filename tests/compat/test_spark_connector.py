"""Spark's Kafka connector reads the same rows as `format("heliograph")`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.formats import Block, FlowKey, Run, encode_record, map_topic_name
from spark_global.links import encode_links
from tests.support.aggregated import SHIFT, Aggregated
from tests.support.cluster import running_broker
from tests.support.kafka_from_maven import connector_jars
from tests.support.producing import produce_to

pytestmark = [pytest.mark.real, pytest.mark.oracle, pytest.mark.timeout(300)]

MERGED = "orders"
PREFIXED = "flights"
COMMITTED, ABORTED, PLAIN = "committed", "aborted", "plain"
LAYOUT = (
    (COMMITTED, 10),  # offsets 0 to 9, and a marker at 10
    (ABORTED, 5),  # 11 to 15, and a marker
    (PLAIN, 10),  # 17 to 26
    (COMMITTED, 5),  # 27 to 31, and a marker
    (PLAIN, 4),  # 33 to 36, of which no map speaks
    (ABORTED, 3),  # the log ends in an aborted transaction
)
JFK_RUNS = (Run(100, 0, 10), Run(200, 27, 5))
EWR_RUNS = (Run(500, 17, 10),)
MERGED_ROWS = 29


def write_transactions(bootstrap: str, to: str, layout: Iterable[tuple[str, int]]) -> None:
    """Write transactions into a topic, as clients of Kafka do."""
    for number, (kind, count) in enumerate(layout):
        settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "compression.type": "lz4"}
        if kind != PLAIN:
            settings["transactional.id"] = f"{to}-{number}"
        producer = confluent_kafka.Producer(settings)
        if kind != PLAIN:
            producer.init_transactions()
            producer.begin_transaction()
        for n in range(count):
            headers: list[tuple[str, str | bytes | None]] = [("n", b"1"), ("n", None)]
            producer.produce(
                to,
                key=None if n % 3 == 0 else f"k{n}",
                value=None if n % 4 == 3 else f"{kind} {number} {n}",
                headers=headers if n % 2 else [],
                partition=0,
                timestamp=1_000 + n,
            )
        producer.flush()
        if kind == COMMITTED:
            producer.commit_transaction()
        elif kind == ABORTED:
            producer.abort_transaction()


async def publish_runs(
    nyc: Aggregated, source: str, runs: tuple[Run, ...], topic: str = MERGED, prefix: str = ""
) -> None:
    """Write the map of a link into a topic, the merged one by default."""
    block = Block(
        flow=FlowKey(topic, 0, UUID(int=0), UUID(int=0)),
        producer_id=1,
        producer_epoch=0,
        nonce=1,
        target_topic=prefix + topic,
        source_start=runs[0].source_offset,
        target_start=runs[0].target_offset,
        source_next=runs[-1].source_next,
        next_sequence=sum(run.records_count for run in runs),
        runs=runs,
    )
    at = TopicPartition(map_topic_name(f"{source}-nyc"), 0)
    async with KafkaClient(nyc.bootstrap) as client:
        record = NewRecord(0, *encode_record(block))
        await produce_to(client, at, encode_batch([record]))


@pytest.mark.long
def test_both_readers_have_the_same_rows(zookeeper: str, tmp_path: Path) -> None:
    jars = connector_jars()
    with asyncio.Runner() as runner:
        context = running_broker(zookeeper, tmp_path / "broker")
        broker = runner.run(context.__aenter__())
        try:
            nyc = Aggregated(broker.bootstrap, runner)
            nyc.run(nyc.create(MERGED))
            write_transactions(broker.bootstrap, MERGED, LAYOUT)
            for source, runs in (("jfk", JFK_RUNS), ("ewr", EWR_RUNS)):
                nyc.run(nyc.create(f"{source}.{PREFIXED}", 2))
                nyc.run(nyc.copy(f"{source}.{PREFIXED}", range(20), partition=1))
                # The map ends before the copy does.
                nyc.run(nyc.publish_map(source, PREFIXED, 15, partition=1))
                nyc.run(publish_runs(nyc, source, runs))
            nyc.run(nyc.commit("any", f"jfk.{PREFIXED}", 1))
            links = encode_links(nyc.aggregate("jfk", "ewr").links)
            done = subprocess.run(
                [
                    sys.executable,
                    *("-m", "tests.support.connector_job"),
                    *(broker.bootstrap, links, str(jars), MERGED, PREFIXED),
                ],
                cwd=Path(__file__).parents[2],
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            runner.run(context.__aexit__(None, None, None))
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for topic in (MERGED, PREFIXED):
        assert found[topic]["theirs"] == found[topic]["ours"]
        assert found[topic]["theirs_columns"] == found[topic]["ours_columns"]
        assert found[topic]["tasks"] > 2, "more tasks than partitions"
    merged = found[MERGED]["theirs"]
    assert (len(merged), len(found[PREFIXED]["theirs"])) == (MERGED_ROWS, 40)
    assert not any(ABORTED in str(row) for row in merged)
    # The datacenter, and the source offset next to that of the aggregate.
    origins = {(row[0], row[3], row[5]) for row in merged}
    assert {("JFK", "200", "27"), ("EWR", "500", "17"), ("None", "None", "33")} <= origins
    unknown = [row for row in found[PREFIXED]["theirs"] if row[3] == "None"]
    assert {(row[0], row[5]) for row in unknown} == {
        (name, str(n)) for name in ("JFK", "EWR") for n in range(15, 20)
    }
    assert {row[3] for row in found[PREFIXED]["theirs"]} >= {str(SHIFT), str(SHIFT + 14)}
    assert found["bounded"] == [[str(n)] for n in range(100, 105)]
    assert found["view"] == MERGED_ROWS
    assert "internal topics: __consumer_offsets" in found["refusal"]


STREAMED = "gates"
STREAMED_LAYOUT = (
    (PLAIN, 10),  # offsets 0 to 9
    (ABORTED, 4),  # 10 to 13, and a marker at 14
    (COMMITTED, 6),  # 15 to 20, and a marker at 21
)
KNOWN_RUNS = (Run(100, 0, 10),)
LATER_RUNS = (*KNOWN_RUNS, Run(300, 15, 6))
WAIT_SECONDS_MAX = 200.0


def test_a_stream_has_the_same_rows_and_waits_for_the_map(zookeeper: str, tmp_path: Path) -> None:
    jars = connector_jars()
    with asyncio.Runner() as runner:
        context = running_broker(zookeeper, tmp_path / "broker")
        broker = runner.run(context.__aenter__())
        try:
            nyc = Aggregated(broker.bootstrap, runner)
            # A pattern that is not anchored has the second one too.
            for topic in (f"jfk.{STREAMED}", f"jfk.{STREAMED}-dlq"):
                nyc.run(nyc.create(topic))
                write_transactions(broker.bootstrap, topic, STREAMED_LAYOUT)
            nyc.run(nyc.publish_map("jfk", PREFIXED, 0))  # of another topic
            nyc.run(publish_runs(nyc, "jfk", KNOWN_RUNS, STREAMED, "jfk."))
            out, log = tmp_path / "out", tmp_path / "job.log"
            links = encode_links(nyc.aggregate("jfk").links)
            with log.open("wb") as said:
                job = subprocess.Popen(
                    [
                        sys.executable,
                        *("-m", "tests.support.connector_stream_job"),
                        *(broker.bootstrap, links, str(jars), STREAMED, str(out)),
                    ],
                    cwd=Path(__file__).parents[2],
                    stdout=said,
                    stderr=said,
                )
            try:
                deadline = time.monotonic() + WAIT_SECONDS_MAX
                while not (out / "0").exists():
                    assert job.poll() is None and time.monotonic() < deadline, log.read_text()
                    time.sleep(0.1)
                # The next batch has records that no map has.
                nyc.run(publish_runs(nyc, "jfk", LATER_RUNS, STREAMED, "jfk."))
                assert job.wait(WAIT_SECONDS_MAX) == 0, log.read_text()[-4000:]
            finally:
                job.kill()
                job.wait()
        finally:
            runner.run(context.__aexit__(None, None, None))
    batches = [json.loads(path.read_text()) for path in sorted(out.glob("[0-9]*"))]
    assert len(batches) >= 3, "as many records at once as the option says"
    ours = json.loads((out / "ours").read_text())
    assert sorted(row for rows in batches for row in rows) == ours
    assert [row[3] for row in ours] == [*map(str, range(100, 110)), *map(str, range(300, 306))]
    # The last batch ran twice.
    assert json.loads((out / "again").read_text()) == batches[-1]
    assert "begins at earliest or latest" in (out / "refusal").read_text()
