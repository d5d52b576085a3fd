"""MirrorMaker 2's Java client reads what our mirror writes for it."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from local_cluster.client.admin.group_offsets import CommittedOffset, commit_offsets
from local_cluster.client.client import KafkaClient
from local_cluster.client.reader import read_topic
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats import gaps_topic_name, map_topic_name
from mirror_maker.formats.completeness.statement import completeness_topic_name
from mirror_maker.formats.mm2 import (
    Heartbeat,
    OffsetSync,
    checkpoints_topic,
    decode_checkpoint,
    decode_heartbeat,
    decode_offset_sync,
    offset_syncs_topic,
)
from mirror_maker.formats.receipts import receipts_topic_name
from mirror_maker.formats.verdicts import verdicts_topic_name
from tests.real.mirror.test_mirror_links import COPY, T0, create, until_copied, write
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.kafka_from_maven import java_command, tool_jars
from tests.support.mirror_process import mirror

pytestmark = pytest.mark.real

PROGRAM = Path(__file__).parent / "java" / "AskMirrorClient.java"
FORMATTER = "org.apache.kafka.connect.mirror.formatters.CheckpointFormatter"
ASK_SECONDS_MAX = 90.0
STATE_TOPICS = sorted(
    name("a-b")
    for name in (
        gaps_topic_name,
        map_topic_name,
        receipts_topic_name,
        verdicts_topic_name,
        completeness_topic_name,
    )
)


@pytest.fixture
async def brokers(
    zookeeper: str, tmp_path: Path
) -> AsyncIterator[tuple[BrokerProcess, BrokerProcess]]:
    tool_jars()
    async with (
        running_broker(zookeeper, tmp_path / "source", cluster="source") as source,
        running_broker(zookeeper, tmp_path / "target", cluster="target") as target,
    ):
        yield source, target


async def run(*command: str) -> str:
    done = await asyncio.to_thread(
        subprocess.run,
        command,
        capture_output=True,
        text=True,
        timeout=ASK_SECONDS_MAX,
        check=False,
    )
    assert not done.returncode, f"{done.stdout}\n{done.stderr}"
    return done.stdout


async def read_all(client: KafkaClient, topic: str) -> list[tuple[bytes, bytes]]:
    try:
        return [(r.key or b"", r.value or b"") async for r in read_topic(client, topic)]
    except KafkaError:
        return []


@pytest.mark.parametrize("location", ["source", "target"])
async def test_mirror_client_answers(
    brokers: tuple[BrokerProcess, BrokerProcess], tmp_path: Path, location: str
) -> None:
    source_broker, target_broker = brokers
    async with (
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        await create(source, "t")
        await write(source, T0, 60)
        await commit_offsets(source, "app", {T0: CommittedOffset(37, -1, "m")})
        async with mirror(
            tmp_path, source_broker.bootstrap, target_broker.bootstrap, mm2_topics=location
        ):
            await until_copied(target, COPY, 60)
            async with asyncio.timeout(30):
                # A group whose records are not copied yet is clamped at first.
                while not (
                    (checkpoints := await read_all(target, checkpoints_topic("a")))
                    and decode_checkpoint(*checkpoints[-1]).downstream_offset == 37
                    and await read_all(target, "a.heartbeats")
                    and (await target.metadata()).topics.keys() >= {*STATE_TOPICS}
                ):
                    await asyncio.sleep(0.1)
            answers = dict(
                line.split(" ", 1)
                for line in (
                    await run(
                        *java_command(str(PROGRAM), jars=tool_jars()),
                        *(target_broker.bootstrap, "a", "app"),
                    )
                ).splitlines()
            )
            assert answers == {
                "replicationHops": "1",
                "heartbeatTopics": "[a.heartbeats, heartbeats]",
                "checkpointTopics": "[a.checkpoints.internal]",
                "upstreamClusters": "[a]",
                "translateOffsets": "{a.t-0=37}",
                "remoteTopics": "[a.heartbeats, a.t]",
                # From Kafka 4.0 on its policy calls few names internal, and ours are not among
                # them (KIP-1074); docs/operations/groups.md says what hides them.
                "allRemoteTopics": f"[a.heartbeats, a.t, {', '.join(STATE_TOPICS)}]",
                "allWithPolicy": "[a.heartbeats, a.t]",
            }
            holder, alias = (source, "b") if location == "source" else (target, "a")
            syncs = [
                decode_offset_sync(*pair)
                for pair in await read_all(holder, offset_syncs_topic(alias))
            ]
            assert OffsetSync("t", 0, 0, 0) in syncs
            assert OffsetSync("t", 0, 59, 59) in syncs
            beats = [decode_heartbeat(*pair) for pair in await read_all(target, "heartbeats")]
            assert {beat[:2] for beat in beats} == {("a", "b")}
            assert all(isinstance(beat, Heartbeat) and beat.timestamp_ms > 0 for beat in beats)
            shown = await run(
                *java_command("org.apache.kafka.tools.consumer.ConsoleConsumer"),
                "--bootstrap-server", target_broker.bootstrap,
                "--topic", checkpoints_topic("a"), "--from-beginning",
                "--max-messages", str(len(checkpoints)), "--formatter", FORMATTER,
            )  # fmt: skip
            assert shown.splitlines()[-1].startswith(
                "Checkpoint{consumerGroupId=app, topicPartition=a.t-0, upstreamOffset=37, "
                "downstreamOffset=37, metadata=m"
            )
