"""Clients push their metrics to our broker (KIP-714), and a scrape shows them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import confluent_kafka
import pytest

from local_cluster.client.admin.configs import alter_configs
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import ConfigChange, NewTopic
from local_cluster.wire.constants import AlterOperation, ConfigResourceType
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.java_process import run_java
from tests.support.scraping import scrape

pytestmark = [pytest.mark.real, pytest.mark.oracle]

ENABLED = {"heliograph.client.metrics.enable": "true"}
RECORDS = 40
RECORDS_PER_SECOND = 20
INTERVAL_MS = "300"
WAIT_SECONDS_MAX = 60.0
CLIENT_ID = 'a "client"'
CONNECTED = "org_apache_kafka_producer_connection_creation_total"
SENT = "org_apache_kafka_producer_record_send_total"


async def test_librdkafka_and_java_push_their_metrics(zookeeper: str, tmp_path: Path) -> None:
    async with (
        running_broker(zookeeper, tmp_path, config=ENABLED, http_port=0) as broker,
        KafkaClient(broker.bootstrap) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=1)])
        await subscribe(client)
        await run_java(
            "org.apache.kafka.tools.VerifiableProducer",
            *("--bootstrap-server", broker.bootstrap, "--topic", "t"),
            *("--max-messages", str(RECORDS), "--throughput", str(RECORDS_PER_SECOND)),
        )
        # Java's producer has left: what it pushed stays for a while.
        found = await asyncio.to_thread(scrape, broker.http_url)
        java = found.all("heliograph_client_info", client_software_name="apache-kafka-java")
        assert len(java) == 1
        # A producer that closes while a push is under way sends no last one.
        assert 0 < found.sum(SENT, client_id="producer-1") <= RECORDS
        assert found.one("kafka_server_client_metrics_instance_count") == 0
        await asyncio.to_thread(_librdkafka, broker)


async def subscribe(client: KafkaClient) -> None:
    wanted = {"metrics": "*", "interval.ms": INTERVAL_MS}
    changes = [ConfigChange(name, AlterOperation.SET, value) for name, value in wanted.items()]
    await alter_configs(client, ConfigResourceType.CLIENT_METRICS, "all", changes)


def _librdkafka(broker: BrokerProcess) -> None:
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "client.id": CLIENT_ID,
        "enable.metrics.push": True,
    }
    producer = confluent_kafka.Producer(settings)
    producer.produce("t", b"v")
    producer.flush()

    deadline = time.monotonic() + WAIT_SECONDS_MAX
    found = scrape(broker.http_url)
    while not found.all(CONNECTED, client_id=CLIENT_ID):
        assert time.monotonic() < deadline, sorted(found.samples)
        producer.poll(0.1)
        found = scrape(broker.http_url)
    ((info, _),) = found.all("heliograph_client_info", client_id=CLIENT_ID)
    assert info["client_software_name"] == "confluent-kafka-python"
    assert found.one("kafka_server_client_metrics_instance_count") == 1
    assert found.sum("heliograph_client_metrics_pushes_total", error="none") >= 2
