"""Compile the Java program once, and play its scenarios against a cluster."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import platformdirs
import pytest

from tests.support.cluster import running_broker
from tests.support.kafka_from_maven import LOG_WARNINGS, TOOL_OPTIONS, broker_jars, running_kafka

SOURCES: Final = Path(__file__).parent / "scenarios"
# kafka-clients and what it needs, of all that a broker needs.
CLIENT_JARS: Final = ("kafka-clients-", "lz4-java-", "snappy-java-", "zstd-jni-", "slf4j-")
COMPILE_SECONDS_MAX: Final = 180.0
PLAY_SECONDS_MAX: Final = 420.0
CONFIG: Final = {
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
"""What both brokers are started with: groups and transactions that do not wait."""


def class_path() -> str:
    """Return the class path of a client, and the compiled program. Skips without Java."""
    jars = [str(jar) for jar in broker_jars().iterdir() if jar.name.startswith(CLIENT_JARS)]
    return os.pathsep.join([str(_compiled(jars)), *sorted(jars)])


def _compiled(jars: list[str]) -> Path:
    """Return the directory of classes; other sources or jars are another directory."""
    if shutil.which("javac") is None:
        pytest.skip("no javac on this machine")
    sources = sorted(SOURCES.glob("*.java"))
    contents = (*(source.read_bytes() for source in sources), *map(str.encode, sorted(jars)))
    name = hashlib.sha256(b"".join(contents)).hexdigest()[:12]
    classes = Path(platformdirs.user_cache_dir("heliograph")) / f"java44-{name}"
    if classes.is_dir():
        return classes
    with tempfile.TemporaryDirectory(dir=classes.parent) as partial:
        command = ["javac", "-J-XX:TieredStopAtLevel=1", "-nowarn", "-cp", os.pathsep.join(jars)]
        target = Path(partial) / "classes"
        done = subprocess.run(
            [*command, "-d", str(target), *map(str, sources)],
            capture_output=True,
            text=True,
            timeout=COMPILE_SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if not classes.is_dir():
            target.rename(classes)
    return classes


async def play(bootstrap: str, which: str, pattern: str = ".*") -> dict[str, Any]:
    """Play `which` ("all" or "quick") scenarios that match. Returns their results by name."""
    process = await asyncio.create_subprocess_exec(
        "java",
        *(*TOOL_OPTIONS, *LOG_WARNINGS, "-cp", await asyncio.to_thread(class_path)),
        *("PlayAll", bootstrap, which, pattern),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PLAY_SECONDS_MAX):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode(errors="replace")[-3000:]
    played = (json.loads(line) for line in output.decode().splitlines())
    return {each["scenario"]: each["result"] for each in played}


@asynccontextmanager
async def both_brokers(zookeeper: str, directory: Path) -> AsyncIterator[tuple[str, str]]:
    """Start Apache Kafka and ours with the same configs. Yields their bootstrap servers."""
    async with AsyncExitStack() as stack:
        kafka = await stack.enter_async_context(running_kafka(directory / "kafka", CONFIG))
        ours = await stack.enter_async_context(
            running_broker(zookeeper, directory / "ours", config=CONFIG)
        )
        yield kafka.bootstrap, ours.bootstrap
