"""Health and metrics of three real brokers: what a scrape says is what happened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from local_cluster.client.admin.group_offsets import CommittedOffset, commit_offsets
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import FetchPosition, NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from tests.support.cluster import BrokerProcess
from tests.support.producing import produce_once
from tests.support.replicas import (
    bootstrap,
    eventually,
    partition_of,
    running_cluster,
    until_known,
)
from tests.support.scraping import Scrape, get_json, scrape

pytestmark = pytest.mark.real

RECORDS = 5
COMMITTED = 2
HOUR_S = 3_600


async def scrape_all(brokers: Sequence[BrokerProcess]) -> list[Scrape]:
    return list(
        await asyncio.gather(*(asyncio.to_thread(scrape, each.http_url) for each in brokers))
    )


def total(found: Sequence[Scrape], name: str, **labels: str) -> float:
    """The sum over all brokers of the samples with at least these labels."""
    values = [value for each in found for has, value in each.all(name, **labels)]
    assert values, f"{name}{labels} has no sample"
    return sum(values)


async def test_scrapes_say_what_the_cluster_did(zookeeper: str, tmp_path: Path) -> None:
    async with (
        running_cluster(zookeeper, tmp_path, http_port=0) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=3)])
        await until_known(brokers, client, "t")
        batch = encode_batch([NewRecord(i, None, b"v") for i in range(RECORDS)])
        partitions = [TopicPartition("t", index) for index in range(3)]
        leaders = [(await partition_of(client, "t", index)).leader for index in range(3)]
        assert len(set(leaders)) == 3
        for leader, at in zip(leaders, partitions, strict=True):
            await produce_once(client, leader, at, bytearray(batch))
            await client.fetch(leader, {at: FetchPosition(0)}, wait_ms_max=0)
        # The coordinator of the group leads one of the partitions only.
        offsets = {at: CommittedOffset(COMMITTED, -1, "") for at in partitions}
        await commit_offsets(client, 'a "group"', offsets)
        found = await scrape_all(brokers)

        _expect_traffic(found, len(batch))
        _expect_replicas(found)
        assert total(found, "kafka_controller_kafkacontroller_activecontrollercount") == 1
        lags = [at for each in found for at in each.all("kafka_consumergroup_lag")]
        assert sorted(
            (at["consumergroup"], at["topic"], at["partition"], lag) for at, lag in lags
        ) == [('a "group"', "t", str(index), RECORDS - COMMITTED) for index in range(3)]
        # The records are of 1970. The coordinator asks the two other leaders for their times.
        behind = [each.all("kafka_consumergroup_group_lag_seconds") for each in found]
        ages_s = [value for of_broker in behind for _, value in of_broker]
        assert [abs(time.time() - age_s) < HOUR_S for age_s in ages_s] == [True] * 3
        for each in found:
            assert (
                each.one(
                    "kafka_server_socket_server_metrics_connection_count",
                    listener="PLAINTEXT",
                    networkProcessor="0",
                )
                >= 1
            )
            assert (
                0
                <= each.one("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent")
                <= 1
            )
            assert each.one("process_resident_memory_bytes") > 1e7
        for broker in brokers:
            status, document = await asyncio.to_thread(
                get_json, f"{broker.http_url}/readyz?verbose=1"
            )
            assert (status, document["ready"]) == (200, True)
            assert all(check["passed"] for check in document["checks"])
            assert (await asyncio.to_thread(get_json, f"{broker.http_url}/livez"))[0] == 200
        await _expect_a_lost_broker(brokers)


def _expect_traffic(found: Sequence[Scrape], batch_bytes: int) -> None:
    prefix = "kafka_server_brokertopicmetrics_"
    for name, expected in (
        ("messagesin_total", 3 * RECORDS),
        ("bytesin_total", 3 * batch_bytes),
        ("bytesout_total", 3 * batch_bytes),
        ("replicationbytesin_total", 6 * batch_bytes),
        ("replicationbytesout_total", 6 * batch_bytes),
        ("totalproducerequests_total", 3),
        ("failedproducerequests_total", 0),
    ):
        assert total(found, prefix + name, topic="t") == expected, name
    for each in found:
        request = "kafka_network_requestmetrics_"
        produces = each.sum(f"{request}requests_total", request="Produce")
        assert produces == 1
        assert each.one(f"{request}totaltimems_count", request="Produce") == produces
        median, most = (
            each.one(f"{request}{part}", request="Produce", quantile="0.999")
            for part in ("localtimems", "totaltimems")
        )
        # It waited for two followers.
        assert 0 < median < most
        assert (
            each.one(
                "kafka_server_delayedoperationpurgatory_purgatorysize", delayedOperation="Produce"
            )
            == 0
        )


def _expect_replicas(found: Sequence[Scrape]) -> None:
    prefix = "kafka_server_replicamanager_"
    for each in found:
        assert each.one(f"{prefix}underreplicatedpartitions") == 0
        assert each.one(f"{prefix}partitioncount") == len(each.all("kafka_log_log_size"))
        assert len(each.all("kafka_log_log_logendoffset", topic="t")) == 3
        assert [value for _, value in each.all("kafka_log_log_logendoffset", topic="t")] == [
            RECORDS
        ] * 3
    assert total(found, "kafka_cluster_partition_replicascount", topic="t") == 9
    current = [
        at for each in found for at in each.all("kafka_topic_partition_current_offset", topic="t")
    ]
    assert sorted((at["partition"], value) for at, value in current) == [
        (str(index), RECORDS) for index in range(3)
    ]
    assert total(found, "kafka_topic_partitions", topic="t") == 3


async def _expect_a_lost_broker(brokers: Sequence[BrokerProcess]) -> None:
    """Kill a broker: the others report the ISRs without it, and elections by the controller."""
    lost, left = brokers[-1], brokers[:-1]
    elections = "kafka_controller_controllerstats_leaderelectionrateandtimems_count"
    await lost.kill()

    async def is_reported() -> bool:
        found = await scrape_all(left)
        under = "kafka_cluster_partition_underreplicated"
        return total(found, under, topic="t") == 3

    await eventually(is_reported)
    found = await scrape_all(left)
    assert total(found, "kafka_server_replicamanager_underreplicatedpartitions") >= 3
    assert total(found, "kafka_server_replicamanager_underminisrpartitioncount") == 0
    assert total(found, "kafka_server_replicamanager_atminisrpartitioncount") >= 3
    assert total(found, elections) >= 1
    assert total(found, "kafka_controller_controllerstats_uncleanleaderelections_total") == 0
