"""Releases of Apache Kafka that speak to ZooKeeper: brokers of 3.9.1 and 2.8.2, tools of 2.8.2."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient

from tests.support.kafka_from_maven import (
    LOG_WARNINGS,
    START_SECONDS_MAX,
    TOOL_OPTIONS,
    ApacheKafkaBroker,
    fetched_jars,
    properties_text,
)
from tests.support.quiet_ports import quiet_port

POM: Final = Path(__file__).parents[1] / "compat" / "zookeeper_mode" / "pom.xml"
BROKER_VERSION: Final = "3.9.1"
"""The last release with a ZooKeeper mode."""
OLDEST_VERSION: Final = "2.8.2"
"""The oldest release that a mirror is tried with; the last whose tools write to ZooKeeper
themselves."""
TOOL_SECONDS_MAX: Final = 180.0


def zookeeper_mode_jars(version: str = BROKER_VERSION) -> Path:
    """The directory of that release's jars; skips the test where they cannot be had."""
    return fetched_jars(POM, f"-Dkafka.version={version}")


def zookeeper_mode_command(version: str, program: str) -> list[str]:
    """The command that runs a class of that release; skips the test where it cannot be had."""
    jars = zookeeper_mode_jars(version)
    return ["java", *TOOL_OPTIONS, *LOG_WARNINGS, "-cp", f"{jars}/*", program]


async def run_old_tool(program: str, *arguments: str) -> str:
    """Run a tool of 2.8.2 to its end; what it printed. A failure shows its errors."""
    done = await asyncio.to_thread(
        subprocess.run,
        [*zookeeper_mode_command(OLDEST_VERSION, program), *arguments],
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


@dataclass
class ZooKeeperModeBroker(ApacheKafkaBroker):
    """One broker; the port stays the same over restarts."""

    zookeeper_connect: str
    version: str = BROKER_VERSION
    config: Mapping[str, str] = field(default_factory=dict)

    async def start(self) -> None:
        """Start and wait until it answers; on the data of an earlier start, if any."""
        # It would end at once while the session of one that was killed is still there.
        await asyncio.to_thread(self._await_forgotten)
        self.spawn()
        await self.wait_answering()

    def spawn(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._properties_file.write_text(properties_text(self._properties()))
        command = zookeeper_mode_command(self.version, "kafka.Kafka")
        self._spawn([*command, str(self._properties_file)])

    def _await_forgotten(self) -> None:
        zookeeper = KazooClient(self.zookeeper_connect)
        zookeeper.start()
        try:
            deadline = time.monotonic() + START_SECONDS_MAX
            while zookeeper.exists(f"/brokers/ids/{self.broker_id}"):
                assert time.monotonic() < deadline, "the killed broker's session does not end"
                time.sleep(0.1)
        finally:
            zookeeper.stop()
            zookeeper.close()

    def _properties(self) -> dict[str, str]:
        return {
            "broker.id": str(self.broker_id),
            "zookeeper.connect": self.zookeeper_connect,
            "zookeeper.session.timeout.ms": "6000",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "broker.rack": f"rack-{self.broker_id}",
            "log.dirs": str(self.log_dir),
            "auto.create.topics.enable": "false",
            "auto.leader.rebalance.enable": "false",
            "offsets.topic.replication.factor": "1",
            **self.config,
        }


@contextlib.asynccontextmanager
async def running_zookeeper_mode_brokers(
    zookeeper_connect: str, directory: Path, *broker_ids: int
) -> AsyncIterator[list[ZooKeeperModeBroker]]:
    """Brokers of Kafka 3.9.1, started one after another, so that the first one controls."""
    brokers = [
        ZooKeeperModeBroker(
            directory / f"kafka-{broker_id}", quiet_port(), zookeeper_connect, broker_id=broker_id
        )
        for broker_id in broker_ids
    ]
    try:
        for broker in brokers:
            broker.spawn()
            await broker.wait_answering()
        yield brokers
    finally:
        for broker in brokers:
            await broker.kill()
