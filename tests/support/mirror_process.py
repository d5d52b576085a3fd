"""A mirror worker as a process, for tests: start, stop, kill -9, ask."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import ClientError, ClientSession

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import Record
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats import MapTopic, OffsetMap, map_topic_name
from mirror_maker.settings import Limits, LinkSettings, MirrorSettings, dump_settings
from tests.support.cluster import PRESENT_CODE

START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 30.0
UNTIL_SECONDS_MAX = 240.0
"""For Apache Kafka on a loaded machine; nothing that is waited for takes so long."""


@dataclass
class MirrorProcess:
    """One worker; `start` again after `kill` or `stop` for its successor."""

    settings: MirrorSettings
    directory: Path
    process: subprocess.Popen[bytes] | None = None
    http_port: int = 0
    code: Path = PRESENT_CODE
    """The version of the mirror that `start` runs."""
    dump: Callable[[MirrorSettings], bytes] = dump_settings
    """Its settings as that version reads them."""

    def log_text(self) -> str:
        return (self.directory / "mirror.log").read_text(errors="replace")

    def settings_text(self) -> str:
        return (self.directory / "settings.json").read_text()

    async def start(self) -> None:
        """Start and wait until it takes part in its group."""
        settings = self.directory / "settings.json"
        settings.write_bytes(self.dump(self.settings))
        with (self.directory / "mirror.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mirror_maker", "--settings", str(settings)],
                stdout=log,
                stderr=log,
                cwd=self.code,
            )
        async with asyncio.timeout(START_SECONDS_MAX):
            while not self._is_ready():
                if self.process.poll() is not None:
                    raise RuntimeError(f"the mirror ended at once:\n{self.log_text()[-4000:]}")
                await asyncio.sleep(0.02)

    def _is_ready(self) -> bool:
        assert self.process is not None
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            content = json.loads(Path(self.settings.ready_file).read_text())
            if content["pid"] == self.process.pid:
                self.http_port = content["http_port"]
                return True
        return False

    async def stop(self) -> int:
        """SIGTERM and wait; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(asyncio.to_thread(self.process.wait), STOP_SECONDS_MAX)

    async def kill(self) -> None:
        """kill -9 and wait."""
        assert self.process is not None
        self.process.kill()
        await asyncio.to_thread(self.process.wait)

    async def get(self, path: str) -> str:
        async with (
            ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.http_port}{path}") as answer,
        ):
            return await answer.text()

    async def status(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(await self.get("/status"))
        return document

    async def link(self, name: str | None = None) -> dict[str, Any]:
        """The status of a link, of the first without a name."""
        links = (await self.status())["links"]
        found: dict[str, Any] = next(x for x in links if name in (None, x["name"]))
        return found

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait until the condition holds; else say what the first link and the log say."""
        try:
            async with asyncio.timeout(UNTIL_SECONDS_MAX):
                while not await condition():
                    await asyncio.sleep(0.05)
        except TimeoutError:
            link: object = "no answer"
            with contextlib.suppress(ClientError):
                link = await self.link()
            raise AssertionError(f"{link}\n{self.log_text()[-4000:]}") from None

    async def until_state(self, state: str, seconds_max: float = 30.0) -> dict[str, Any]:
        """Wait until the first link is in a state; its status then."""
        link: dict[str, Any] = {}
        try:
            async with asyncio.timeout(seconds_max):
                while True:
                    with contextlib.suppress(ClientError):
                        link = await self.link()
                        if link["state"] == state:
                            return link
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"not {state}: {link}\n{self.log_text()[-4000:]}") from None


@contextlib.asynccontextmanager
async def mirror(
    directory: Path,
    source_bootstrap: str,
    target_bootstrap: str,
    *,
    topics: tuple[str, ...] = ("t",),
    worker_id: str = "w1",
    link: str = "a-b",
    session_timeout_ms: int = 6_000,
    target_security: ClientSecurity = PLAINTEXT,
    limits: Limits | None = None,
    is_started: bool = True,
    **link_settings: Any,
) -> AsyncIterator[MirrorProcess]:
    """A worker with one link from alias `a` to alias `b`, started; killed at the end."""
    directory = directory / worker_id
    directory.mkdir(parents=True, exist_ok=True)
    settings = MirrorSettings(
        worker_id=worker_id,
        target_alias="b",
        target_bootstrap=target_bootstrap,
        target_security=target_security,
        links=(
            LinkSettings(
                name=link,
                source_alias="a",
                source_bootstrap=source_bootstrap,
                topics=topics,
                **link_settings,
            ),
        ),
        ready_file=str(directory / "ready.json"),
        session_timeout_ms=session_timeout_ms,
        limits=limits or Limits(),
    )
    worker = MirrorProcess(settings, directory)
    try:
        if is_started:
            await worker.start()
        yield worker
    finally:
        if worker.process is not None and worker.process.poll() is None:
            await worker.kill()


async def read_records(client: KafkaClient, at: TopicPartition) -> list[Record]:
    """Everything that lies in a partition now; nothing while it does not exist."""
    try:
        return [r async for r in read_topic(client, at.topic, partition=at.partition)]
    except KafkaError:
        return []


async def read_map(client: KafkaClient, at: TopicPartition, link: str = "a-b") -> OffsetMap:
    """The published map of a source partition, read as any outsider would."""
    topic = MapTopic()
    async for record in read_topic(client, map_topic_name(link)):
        topic.replay(record.key, record.value)
    flow = topic.latest_flow(at.topic, at.partition)
    assert flow is not None, f"{at} was never opened"
    offset_map = topic.offset_map(flow)
    assert offset_map is not None
    return offset_map


def check_map(offset_map: OffsetMap, source: list[Record], target: list[Record]) -> None:
    """The map against both logs, record by record, in both directions."""
    assert len(source) == len(target)
    previous_next = offset_map.target_start
    for original, copy in zip(source, target, strict=True):
        assert offset_map.translate(original.offset).target_offset == previous_next
        assert offset_map.source_of(copy.offset) == original.offset
        previous_next = copy.offset + 1
    if source:
        assert offset_map.translate(source[-1].offset + 1).target_offset == previous_next
