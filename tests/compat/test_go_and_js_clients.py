"""Clients in Go (franz-go, sarama) and JavaScript (kafkajs), each a program of its own.

What they need is fetched once, by their lock files, into the user's cache directory; where that
cannot be done the test is skipped and says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka
import platformdirs
import pytest

if TYPE_CHECKING:
    from tests.compat.conftest import Broker

pytestmark = pytest.mark.real

HERE = Path(__file__).parent
FETCH_SECONDS_MAX = 300.0
RUN_SECONDS_MAX = 120.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 100


def built(language: str, needs: str, fetch: list[str], build: list[str]) -> Path:
    """Return the program's directory in the cache, after `fetch` and `build`."""
    if shutil.which(needs) is None:
        pytest.skip(f"no {needs} on this machine")
    source = HERE / language
    paths = [path for path in sorted(source.rglob("*")) if path.is_file()]
    content = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]
    directory = Path(platformdirs.user_cache_dir("heliograph")) / f"compat-{language}-{content}"
    if directory.is_dir():
        return directory
    partial = directory.with_name(f"{directory.name}.{uuid.uuid4().hex}")
    shutil.copytree(source, partial)
    try:
        fetched = finished(fetch, partial, FETCH_SECONDS_MAX)
        if fetched.returncode:
            pytest.skip(f"{' '.join(fetch)}: {fetched.stdout[-500:]}{fetched.stderr[-500:]}")
        made = finished(build, partial, FETCH_SECONDS_MAX)
        assert made.returncode == 0, made.stdout + made.stderr
        with contextlib.suppress(OSError):  # another test process was faster
            partial.rename(directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return directory


def finished(
    command: list[str], directory: Path, seconds_max: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=seconds_max, check=False
    )


async def run(command: list[str], directory: Path) -> None:
    """Run the program to its end; a failure shows its output."""
    done = await asyncio.to_thread(finished, command, directory, RUN_SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr


def read_values(bootstrap: str, topic: str) -> list[int]:
    """Read a topic by librdkafka: one client can open what another has compressed."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    metadata = consumer.list_topics(topic, timeout=30).topics[topic]
    starts = [confluent_kafka.TopicPartition(topic, each, 0) for each in metadata.partitions]
    consumer.assign(starts)
    values: list[int] = []
    ends = 0
    while ends < len(starts):
        message = consumer.poll(30)
        assert message is not None
        if message.error() is None:
            values.append(int(message.value() or b""))
        else:
            ends += 1
    consumer.close()
    return sorted(values)


async def codecs_are_readable(bootstrap: str, prefix: str) -> None:
    for codec in CODECS:
        found = await asyncio.to_thread(read_values, bootstrap, f"{prefix}-{codec}")
        assert found == list(range(RECORDS)), codec


async def test_kafkajs(either_broker: Broker) -> None:
    fetch = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    check = ["node", "--check", "client.js"]
    directory = await asyncio.to_thread(built, "js", "npm", fetch, check)
    await run(["node", "client.js", either_broker.bootstrap, "js"], directory)
    await codecs_are_readable(either_broker.bootstrap, "js")


@pytest.mark.parametrize("client", ["franz", "sarama"])
async def test_go_clients(either_broker: Broker, client: str) -> None:
    fetch = ["go", "mod", "download"]
    build = ["go", "build", "-mod=readonly", "-o", "bin/", "./..."]
    directory = await asyncio.to_thread(built, "go", "go", fetch, build)
    await run([str(directory / "bin" / client), either_broker.bootstrap, client], directory)
    await codecs_are_readable(either_broker.bootstrap, client)
