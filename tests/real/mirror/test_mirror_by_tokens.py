"""A mirror that logs in by short tokens on both sides: they are renewed while records flow."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.mirror_process import check_map, mirror, read_map, read_records
from tests.support.producing import produce_to
from tests.support.quiet_ports import quiet_ports
from tests.support.token_endpoint import token_endpoint

pytestmark = pytest.mark.real

LIFETIME_SECONDS = 6
TOKENS = 4
"""Of the worker, before the last record is written."""
AT, COPY = TopicPartition("t", 0), TopicPartition("a.t", 0)


def tokens_address(broker: BrokerProcess) -> str:
    return f"127.0.0.1:{broker.settings.listeners[1].port}"


async def test_nothing_is_lost_while_tokens_are_renewed(zookeeper: str, tmp_path: Path) -> None:
    ports = quiet_ports(2)
    async with (
        token_endpoint(tmp_path / "issuer") as endpoint,
        running_broker(
            zookeeper,
            tmp_path / "source",
            cluster="source",
            listeners=[endpoint.listener(ports[0])],
        ) as source_broker,
        running_broker(
            zookeeper,
            tmp_path / "target",
            cluster="target",
            listeners=[endpoint.listener(ports[1])],
        ) as target_broker,
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        endpoint.lifetime_s = LIFETIME_SECONDS
        new = NewTopic(name="t", partitions=1, configs={"retention.ms": "-1"})
        assert (await source.create_topics([new]))["t"] is None
        written = 0

        async def write() -> None:
            nonlocal written
            record = NewRecord(1_790_000_000_000 + written, b"k%d" % written, b"v")
            await produce_to(source, AT, encode_batch([record]))
            written += 1

        async def is_copied() -> bool:
            return len(await read_records(target, COPY)) >= written

        await write()
        async with mirror(
            tmp_path,
            tokens_address(source_broker),
            tokens_address(target_broker),
            source_security=endpoint.security("mirror"),
            target_security=endpoint.security("mirror"),
        ) as worker:
            await worker.until(is_copied)

            async def is_renewed() -> bool:
                await write()
                return len(endpoint.tokens) >= TOKENS

            await worker.until(is_renewed)
            await write()
            await worker.until(is_copied)
            assert await worker.stop() == 0
            log_text, settings_text = worker.log_text(), worker.settings_text()
        originals, copies = await read_records(source, AT), await read_records(target, COPY)
        assert len(originals) == written
        assert [each[1:] for each in copies] == [each[1:] for each in originals]
        check_map(await read_map(target, AT), originals, copies)
    for broker in (source_broker, target_broker):
        assert "has ended" not in broker.log_text(), "a connection was not authenticated again"
        assert "failed:" not in broker.log_text()
    assert "a new token of client mirror" in log_text
    assert "cannot be renewed" not in log_text
    for text in (log_text, settings_text):
        assert not any(each in text for each in endpoint.tokens)
