"""A distributed Connect worker of Kafka 4.3 as a process, and its REST API."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.java_process import JavaProcess
from tests.support.kafka_from_maven import properties_text
from tests.support.quiet_ports import quiet_port

START_SECONDS_MAX = 90.0
GROUP = "connect-workers"
INTERNAL_TOPICS = ("connect-configs", "connect-offsets", "connect-status")
CONFIG: Mapping[str, str] = {
    "group.id": GROUP,
    "config.storage.topic": INTERNAL_TOPICS[0],
    "offset.storage.topic": INTERNAL_TOPICS[1],
    "status.storage.topic": INTERNAL_TOPICS[2],
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "3",
    "status.storage.partitions": "2",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "exactly.once.source.support": "enabled",
    "offset.flush.interval.ms": "500",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "consumer.session.timeout.ms": "6000",
    "consumer.heartbeat.interval.ms": "1000",
    # Do not wait for a killed worker's session.
    "scheduled.rebalance.max.delay.ms": "0",
}


@dataclass
class ConnectWorker:
    """The worker; its REST port stays the same over restarts."""

    process: JavaProcess
    url: str
    session: aiohttp.ClientSession

    async def start(self) -> None:
        """Start and wait until it is a member of its group and knows its connectors."""
        self.process.start()
        async with asyncio.timeout(START_SECONDS_MAX):
            while True:
                self.process.check_running()
                with contextlib.suppress(aiohttp.ClientError):
                    async with self.session.get(f"{self.url}/health") as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(0.1)

    async def ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        """Call the REST API; return the JSON of the response."""
        async with self.session.request(method, f"{self.url}{path}", json=body or {}) as answer:
            text = await answer.text()
            assert answer.status < 400, f"{method} {path}: {answer.status} {text}"
            return await answer.json() if text else None

    async def run_connector(self, name: str, config: Mapping[str, str]) -> None:
        """Create the connector and wait until its task runs."""
        await self.ask("PUT", f"/connectors/{name}/config", {**config, "tasks.max": "1"})
        await self.await_state(name, "RUNNING", tasks=1)

    async def await_state(self, name: str, state: str, *, tasks: int) -> None:
        """Wait until the connector and a number of tasks are in a state."""
        async with asyncio.timeout(START_SECONDS_MAX):
            while True:
                self.process.check_running()
                with contextlib.suppress(AssertionError):  # its status is not known yet
                    status = await self.ask("GET", f"/connectors/{name}/status")
                    states = [status["connector"]["state"]]
                    states += [task["state"] for task in status["tasks"]]
                    if states == [state] * (1 + tasks):
                        return
                    assert "FAILED" not in states, status
                await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def running_worker(
    bootstrap: str, directory: Path, more: Mapping[str, str] | None = None
) -> AsyncIterator[ConnectWorker]:
    """A worker on a free port, killed at the end; `more` are more of its configs."""
    url = f"http://127.0.0.1:{quiet_port()}"
    config = {**CONFIG, "bootstrap.servers": bootstrap, "listeners": url, **(more or {})}
    properties = directory / "worker.properties"
    properties.write_text(properties_text(config))
    process = JavaProcess(
        "org.apache.kafka.connect.cli.ConnectDistributed",
        (str(properties),),
        directory / "worker.log",
    )
    async with aiohttp.ClientSession() as session:
        worker = ConnectWorker(process, url, session)
        try:
            await worker.start()
            yield worker
        finally:
            await process.kill()
