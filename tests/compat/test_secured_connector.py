"""Spark's Kafka connector on a secured Apache Kafka: SCRAM over TLS, and no secret to be seen."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.constants import AclOperation, PatternType, ResourceType
from mirror_maker.formats import (
    Block,
    FlowKey,
    Registration,
    Run,
    encode_record,
    map_topic_name,
)
from spark_global.addresses import encode_security
from spark_global.links import MirrorLink, encode_links
from tests.support.kafka_from_maven import connector_jars
from tests.support.producing import produce_to
from tests.support.secure_kafka import PASSWORD, SecureKafka, running_secure_kafka

pytestmark = [pytest.mark.oracle, pytest.mark.long, pytest.mark.timeout(900)]

RECORDS = 25
COPY = "jfk.flights"
MAP = map_topic_name("jfk-nyc")


async def fill(kafka: SecureKafka) -> None:
    """Write a copy and its map, and give one user the rights that the reader needs."""
    async with KafkaClient(kafka.plain_bootstrap) as admin:
        new = [
            NewTopic(name=name, partitions=1, replication_factor=1, configs={"retention.ms": "-1"})
            for name in (COPY, MAP)
        ]
        assert not any((await admin.create_topics(new)).values())
        await kafka.add_user(admin, "analyst")
        for prefix in ("jfk.", "heliograph-offset-map."):
            await kafka.allow(
                admin,
                "analyst",
                ResourceType.TOPIC,
                prefix,
                [AclOperation.READ],
                PatternType.PREFIXED,
            )
        records = [NewRecord(1_000 + n, b"k", b"%d" % n) for n in range(RECORDS)]
        await produce_to(admin, TopicPartition(COPY, 0), encode_batch(records))
        block = Block(
            flow=FlowKey("flights", 0, UUID(int=0), UUID(int=0)),
            producer_id=1,
            producer_epoch=0,
            nonce=1,
            target_topic=COPY,
            source_start=100,
            target_start=0,
            source_next=100 + RECORDS,
            next_sequence=RECORDS,
            runs=(Run(100, 0, RECORDS),),
        )
        cluster_id = (await admin.metadata([])).cluster_id or ""
        registration = Registration(
            producer_id=1,
            producer_epoch=0,
            link="jfk-nyc",
            source_cluster_id=cluster_id,
            target_cluster_id=cluster_id,
            registered_at_ms=0,
            worker_id="w",
        )
        said = (registration, block)
        batch = encode_batch([NewRecord(1_000, *encode_record(each)) for each in said])
        await produce_to(admin, TopicPartition(MAP, 0), batch)


def test_a_stream_and_a_read_log_in_and_show_no_password(tmp_path: Path) -> None:
    jars, out = connector_jars(), tmp_path / "out"
    with asyncio.Runner() as runner:
        context = running_secure_kafka(tmp_path / "kafka")
        kafka = runner.run(context.__aenter__())
        try:
            runner.run(fill(kafka))
            kafka.password_file.write_text(PASSWORD)  # without a line end, as the connector needs
            link = MirrorLink(name="jfk-nyc", source="jfk", datacenter="JFK")
            job = [
                *(sys.executable, "-m", "tests.support.connector_stream_job"),
                *(kafka.bootstrap, encode_links((link,)), str(jars), "flights", str(out)),
            ]
            done = subprocess.run(
                [*job, encode_security(kafka.security("analyst"))],
                cwd=Path(__file__).parents[2],
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            runner.run(context.__aexit__(None, None, None))
    assert done.returncode == 0, done.stderr[-4000:]
    batches = [json.loads(path.read_text()) for path in sorted(out.glob("[0-9]*"))]
    ours = json.loads((out / "ours").read_text())
    assert len(batches) > 1 and sorted(row for rows in batches for row in rows) == ours
    assert json.loads((out / "read").read_text()) == ours
    assert [row[3] for row in ours] == [str(100 + n) for n in range(RECORDS)]
    # What Spark shows and logs, and what it writes into the checkpoint.
    written = [
        path.read_bytes().decode(errors="replace") for path in out.rglob("*") if path.is_file()
    ]
    assert "sasl.jaas.config" in (out / "plan").read_text()
    assert PASSWORD not in "".join([done.stdout, done.stderr, *written])
