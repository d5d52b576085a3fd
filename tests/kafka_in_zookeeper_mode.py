"""Releases of Apache Kafka that speak to ZooKeeper: brokers of 3.9.1, tools of 2.8.2."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from local_cluster.client.client import KafkaClient
from local_cluster.wire.errors import KafkaError
from tests.kafka_from_maven import (
    LOG_WARNINGS,
    TOOL_OPTIONS,
    await_answering,
    fetched_jars,
)
from tests.quiet_ports import quiet_port

POM: Final = Path(__file__).parent / "compat" / "zookeeper_mode" / "pom.xml"
BROKER_VERSION: Final = "3.9.1"
"""The last release with a ZooKeeper mode."""
TOOLS_VERSION: Final = "2.8.2"
"""The last release whose tools write to ZooKeeper themselves."""
START_SECONDS_MAX: Final = 240.0
TOOL_SECONDS_MAX: Final = 180.0


def zookeeper_mode_command(version: str, program: str) -> list[str]:
    """The command that runs a class of that release; skips the test where it cannot be had."""
    jars = fetched_jars(POM, f"-Dkafka.version={version}")
    return ["java", *TOOL_OPTIONS, *LOG_WARNINGS, "-cp", f"{jars}/*", program]


async def run_old_tool(program: str, *arguments: str) -> str:
    """Run a tool of 2.8.2 to its end; what it printed. A failure shows its errors."""
    done = await asyncio.to_thread(
        subprocess.run,
        [*zookeeper_mode_command(TOOLS_VERSION, program), *arguments],
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


@dataclass
class ZooKeeperModeBroker:
    """One broker of 3.9.1."""

    broker_id: int
    zookeeper_connect: str
    directory: Path
    port: int = field(default_factory=quiet_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def spawn(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "server.properties"
        properties.write_text("".join(f"{k}={v}\n" for k, v in self._properties().items()))
        with (self.directory / "kafka.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*zookeeper_mode_command(BROKER_VERSION, "kafka.Kafka"), str(properties)],
                stdout=log,
                stderr=log,
            )

    async def wait_answering(self) -> None:
        assert self.process is not None
        log = self.directory / "kafka.log"
        await await_answering(self.process, self._answers, log, START_SECONDS_MAX)

    async def kill(self) -> None:
        """kill -9 and wait."""
        if self.process is not None:
            self.process.kill()
            await asyncio.to_thread(self.process.wait)

    async def _answers(self) -> bool:
        with contextlib.suppress(KafkaError):
            async with KafkaClient(self.bootstrap, request_timeout_ms=2_000) as client:
                return self.broker_id in (await client.metadata([])).brokers
        return False

    def _properties(self) -> dict[str, str]:
        return {
            "broker.id": str(self.broker_id),
            "zookeeper.connect": self.zookeeper_connect,
            "zookeeper.session.timeout.ms": "6000",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "broker.rack": f"rack-{self.broker_id}",
            "log.dirs": str(self.directory / "data"),
            "auto.create.topics.enable": "false",
            "auto.leader.rebalance.enable": "false",
            "offsets.topic.replication.factor": "1",
        }


@contextlib.asynccontextmanager
async def running_zookeeper_mode_brokers(
    zookeeper_connect: str, directory: Path, *broker_ids: int
) -> AsyncIterator[list[ZooKeeperModeBroker]]:
    """Brokers of Kafka 3.9.1, started one after another, so that the first one controls."""
    brokers = [
        ZooKeeperModeBroker(broker_id, zookeeper_connect, directory / f"kafka-{broker_id}")
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
