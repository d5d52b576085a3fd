"""A topic deleted at the source: its copy is deleted after the grace period, and nothing else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.client.reader import read_topic
from mirror_maker.formats import gaps_topic_name
from mirror_maker.settings import Limits
from tests.real.mirror.test_mirror_links import create, until_copied, write
from tests.support.cluster import running_broker
from tests.support.mirror_process import mirror
from topology.deployment.deployment import Daemon, Deployment, LinkView
from topology.operate.mirror_sync import sync_links

pytestmark = pytest.mark.real


async def is_there(client: KafkaClient, topic: str) -> bool:
    return not (await client.metadata([topic])).topics[topic].error


async def test_the_copy_of_a_deleted_topic_is_deleted(zookeeper: str, tmp_path: Path) -> None:
    async with (
        running_broker(zookeeper, tmp_path / "source", cluster="source") as source_broker,
        running_broker(zookeeper, tmp_path / "target", cluster="target") as target_broker,
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        topics = ("gone", "own", "kept")
        for name in topics:
            await create(source, name)
            await write(source, TopicPartition(name, 0), 10)
        async with mirror(
            tmp_path,
            source_broker.bootstrap,
            target_broker.bootstrap,
            topics=topics,
            limits=Limits(topic_sync_ms=100),
            deletions="mirror",
            deletion_grace_ms=1_000,
        ) as worker:
            for name in topics:
                await until_copied(target, TopicPartition(f"a.{name}", 0), 10)
            # A copy that another producer writes into is kept.
            await write(target, TopicPartition("a.own", 0), 1)
            deleted = await source.delete_topics(["gone", "own"])
            assert deleted == {"gone": None, "own": None}

            async def is_done() -> bool:
                return not await is_there(target, "a.gone")

            await worker.until(is_done)
            status: dict[str, Any] = {}

            async def is_kept() -> bool:
                status.update((await worker.link())["deletions"])
                return [each["fate"] for each in status["gone"]] == ["kept"]

            await worker.until(is_kept)
            assert (status["deleted"], status["gone"][0]["copy"]) == (1, "a.own")
            daemon = Daemon(
                key="mirror-b",
                role="mirror",
                label="",
                argv=(),
                files={"settings.json": worker.settings_text()},
                ready_file=worker.settings.ready_file,
            )
            view = LinkView(name="a-b", source="a", target="b", daemon="mirror-b")
            deployment = Deployment(name="d", topology_file="-", daemons=(daemon,), links=(view,))
            (shown,) = await asyncio.to_thread(sync_links, deployment, None, dry_run=True)
            assert (shown["kind"], shown["resource"]) == ("delete_topic", "a.own")
            assert (shown["state"], shown["reason"]) == ("kept", status["gone"][0]["reason"])
            assert await is_there(target, "a.own")
            assert await is_there(target, "a.kept")
            entries = [
                (json.loads(record.key or b""), json.loads(record.value or b""))
                async for record in read_topic(target, gaps_topic_name("a-b"))
            ]
            found = [(key["source_topic"], value["reason"]) for key, value in entries]
            assert set(found) == {("gone", "source_deleted")}
