"""kcat of Debian, on librdkafka 2.0.2: the oldest librdkafka that we support."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import FetchPosition, NewTopic, TopicPartition
from local_cluster.records import header as h
from local_cluster.records.compress import Codec

if TYPE_CHECKING:
    from tests.compat.conftest import Broker

pytestmark = pytest.mark.real

KCAT_SECONDS_MAX = 60.0
RECORDS = 500
NUMBERS = [str(number) for number in range(RECORDS)]


async def kcat(broker: Broker, *arguments: str, lines: str = "") -> str:
    """Return the output of kcat; a failure shows its errors."""
    if shutil.which("kcat") is None:
        pytest.skip("no kcat on this machine")
    done = await asyncio.to_thread(
        subprocess.run,
        ["kcat", "-b", broker.bootstrap, *arguments],
        input=lines,
        capture_output=True,
        text=True,
        timeout=KCAT_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def test_codecs_groups_and_metadata(either_broker: Broker) -> None:
    broker = either_broker
    topics = [NewTopic(name=codec.name.lower(), partitions=1) for codec in Codec]
    async with KafkaClient(broker.bootstrap) as client:
        assert set((await client.create_topics(topics)).values()) == {None}
        for codec in Codec:
            name = codec.name.lower()
            sent = "".join(f"{number}\n" for number in NUMBERS)
            await kcat(broker, "-P", "-t", name, "-z", name, lines=sent)
            leader = (await client.metadata([name])).topics[name].partitions[0].leader
            at = TopicPartition(name, 0)
            stored = (await client.fetch(leader, {at: FetchPosition(0)}))[at].records
            # A client that takes the broker for an old one silently compresses nothing. (A batch
            # that would grow is sent as it is.)
            assert codec in {header.codec for _, header in h.iter_headers(stored)}
            told = await kcat(broker, "-C", "-t", name, "-o", "beginning", "-e", "-q")
            assert told.split() == NUMBERS
    told = await kcat(
        broker, "-G", "g", "-X", "auto.offset.reset=earliest", "-e", "-q", "none", "zstd"
    )
    assert sorted(told.split(), key=int) == sorted(NUMBERS * 2, key=int)
    metadata = json.loads(await kcat(broker, "-L", "-J"))
    assert {topic["topic"] for topic in metadata["topics"]} >= {t.name for t in topics}
    assert metadata["brokers"][0]["name"] == broker.bootstrap
    assert (await kcat(broker, "-Q", "-t", "none:0:-1")).split() == ["none", "[0]", "offset", "500"]
