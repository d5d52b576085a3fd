"""Brokers that log in to each other by short tokens: replication goes on over their renewals."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from tests.support.cluster import running_broker
from tests.support.producing import produce_to
from tests.support.quiet_ports import quiet_port
from tests.support.token_endpoint import token_endpoint

pytestmark = pytest.mark.real

SECONDS_MAX = 120.0
TOKENS = 6
"""Of both brokers, before the last record is written."""


async def test_replication_outlives_the_tokens_of_brokers(chroot: str, tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(token_endpoint(tmp_path / "issuer"))
        endpoint.lifetime_s = 6
        brokers = [
            await stack.enter_async_context(
                running_broker(
                    chroot,
                    tmp_path,
                    broker_id=broker_id,
                    listeners=[endpoint.listener(quiet_port(), "INTERNAL")],
                    settings={
                        "inter_broker_listener": "INTERNAL",
                        "inter_broker_security": endpoint.security("broker"),
                        "broker_principals": ("User:broker",),
                    },
                )
            )
            for broker_id in (1, 2)
        ]
        client = await stack.enter_async_context(KafkaClient(brokers[0].bootstrap))
        topic = NewTopic(
            name="t",
            partitions=2,
            replication_factor=2,
            configs={"min.insync.replicas": "2"},
        )
        assert (await client.create_topics([topic]))["t"] is None
        offset = 0
        async with asyncio.timeout(SECONDS_MAX):
            while len(endpoint.tokens) < TOKENS:
                for index in range(2):
                    # Acknowledged only if the follower has fetched it.
                    batch = encode_batch([NewRecord(1, b"k", b"v")])
                    assert await produce_to(client, TopicPartition("t", index), batch) == offset
                offset += 1
        for broker in brokers:
            assert "has ended" not in broker.log_text()
            assert not any(token in broker.log_text() for token in endpoint.tokens)
