"""Real brokers as processes, for tests: start, stop, kill -9, start again on the same data."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from local_cluster.client.client import KafkaClient
from local_cluster.settings import BrokerSettings, FlushMode, Listener, dump_settings
from tests.support.quiet_ports import quiet_port
from topology.file.load import load_topology
from topology.rules.kafka_configs import broker_config

START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 30.0
SESSION_TIMEOUT_MS = 6_000

PRESENT_CODE = Path(__file__).parents[2]
ONE_BROKER = PRESENT_CODE / "configs" / "one-broker.yaml"

DEVELOPMENT_CONFIG: Mapping[str, str] = {
    # What configs/one-broker.yaml says, so that the clients are tried against just that.
    **broker_config(load_topology(ONE_BROKER).clusters[0]),
    # Fewer partitions of the internal topics: brokers of tests live for seconds.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}


@dataclass
class BrokerProcess:
    """One broker in a process of its own; the port stays the same over restarts."""

    settings: BrokerSettings
    directory: Path
    process: subprocess.Popen[bytes] | None = None
    port: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    code: Path = PRESENT_CODE
    """The directory that `local_cluster` is in; the process runs there."""

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def http_url(self) -> str:
        """The address of its health and metrics; it was started with an `http_port`."""
        ready = json.loads(Path(self.settings.ready_file).read_text())
        return f"http://{ready['http_host']}:{ready['http_port']}"

    @property
    def log_dir(self) -> Path:
        """The first of its log directories, for most the only one."""
        return Path(self.settings.log_dirs[0])

    def log_text(self) -> str:
        return (self.directory / "broker.log").read_text(errors="replace")

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start, and don't wait."""
        settings = self.directory / "settings.json"
        settings.write_bytes(self._settings_text())
        with (self.directory / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "local_cluster", "--settings", str(settings)],
                stderr=log,
                stdout=log,
                env=os.environ | self.environment,
                cwd=self.code,
            )
        return self.process

    async def start(self) -> None:
        """Start and wait until the ready file names this process."""
        self.process = self.spawn()
        ready = Path(self.settings.ready_file)
        async with asyncio.timeout(START_SECONDS_MAX):
            while True:
                if self.process.poll() is not None:
                    raise RuntimeError(f"the broker ended at once:\n{self.log_text()[-4000:]}")
                with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                    content = json.loads(ready.read_text())
                    if content["pid"] == self.process.pid:
                        self.port = content["listeners"][self.settings.listeners[0].name]
                        return
                await asyncio.sleep(0.02)

    async def stop(self) -> int:
        """SIGTERM and wait; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return await self._wait()

    async def kill(self) -> None:
        """kill -9 and wait."""
        assert self.process is not None
        self.process.kill()
        await self._wait()

    def pause(self) -> None:
        """SIGSTOP: alive, but it does nothing until `resume`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    async def _wait(self) -> int:
        assert self.process is not None
        return await asyncio.wait_for(asyncio.to_thread(self.process.wait), STOP_SECONDS_MAX)

    def _settings_text(self) -> bytes:
        if self.code == PRESENT_CODE:
            return dump_settings(self._with_port())
        # Earlier code does not know the keys that came later.
        return TypeAdapter(BrokerSettings).dump_json(self._with_port(), exclude_defaults=True)

    def _with_port(self) -> BrokerSettings:
        from dataclasses import replace

        first, *others = self.settings.listeners
        return replace(self.settings, listeners=(replace(first, port=self.port), *others))


@contextlib.asynccontextmanager
async def running_broker(
    zookeeper_connect: str,
    directory: Path,
    *,
    broker_id: int = 1,
    config: Mapping[str, str] | None = None,
    flush: FlushMode = "fsync",
    cluster: str = "test",
    rack: str | None = None,
    log_dirs: Sequence[str] = ("log",),
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
    advertised_port: int = 0,
    listeners: Sequence[Listener] = (),
    http_port: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> AsyncIterator[BrokerProcess]:
    """A broker under `zookeeper_connect` ("host:port", a fresh chroot is added when absent).

    It keeps everything under `directory`/broker-ID, its logs in the `log_dirs` there. Clients are
    told `advertised_port`, unless it is 0. `listeners` are beside the first, PLAINTEXT. `settings`
    replace others of BrokerSettings.
    """
    if "/" not in zookeeper_connect:
        zookeeper_connect += f"/t{uuid.uuid4().hex[:8]}"
    directory = directory / f"broker-{broker_id}"
    directory.mkdir(parents=True, exist_ok=True)
    broker = BrokerProcess(
        BrokerSettings(
            **{"inter_broker_listener": "PLAINTEXT", **(settings or {})},
            cluster=cluster,
            broker_id=broker_id,
            listeners=(
                Listener(
                    name="PLAINTEXT",
                    host="127.0.0.1",
                    port=quiet_port(),
                    advertised_port=advertised_port,
                ),
                *listeners,
            ),
            zookeeper_connect=zookeeper_connect,
            zookeeper_session_timeout_ms=session_timeout_ms,
            log_dirs=tuple(str(directory / name) for name in log_dirs),
            ready_file=str(directory / "ready.json"),
            flush=flush,
            rack=rack,
            http_port=http_port,
            config={**DEVELOPMENT_CONFIG, **(config or {})},
        ),
        directory,
    )
    try:
        await broker.start()
        yield broker
    finally:
        if broker.process is not None and broker.process.poll() is None:
            broker.process.kill()
            await broker._wait()


@contextlib.asynccontextmanager
async def running_clusters(
    zookeeper: str, directory: Path, *names: str, config: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[dict[str, str], dict[str, KafkaClient]]]:
    """A cluster of one broker for each name: (bootstrap addresses, a client of each)."""
    bootstraps, clients = {}, {}
    async with contextlib.AsyncExitStack() as stack:
        for name in names:
            broker = await stack.enter_async_context(
                running_broker(zookeeper, directory / name, cluster=name, config=config)
            )
            bootstraps[name] = broker.bootstrap
            clients[name] = await stack.enter_async_context(KafkaClient(broker.bootstrap))
        yield bootstraps, clients
