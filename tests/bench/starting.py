"""Starts the systems of a bench, and measures how long that takes."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from local_cluster.compilation.builds import PURE_VARIABLE
from local_cluster.security.authentication.listener_security import (
    SaslSettings,
    SecurityProtocol,
    TlsSettings,
)
from local_cluster.settings import BrokerSettings, FlushMode, Listener
from tests.bench.model import KAFKA, KAFKA_FSYNC, OURS, OURS_FSYNC, OURS_PLAIN
from tests.bench.systems import KAFKA_JAVA_OPTIONS, SETTINGS, System, seconds_until_ready
from tests.support.cluster import PRESENT_CODE, BrokerProcess
from tests.support.kafka_from_maven import KafkaProcess, new_cluster_id
from tests.support.quiet_ports import quiet_ports
from topology.deployment.zookeeper import EmbeddedZooKeeper

SESSION_TIMEOUT_MS: Final = 9_000
"""Of our brokers with ZooKeeper; the default of Kafka's broker.session.timeout.ms."""
FLUSH_EACH_MESSAGE: Final = {"log.flush.interval.messages": "1"}
"""Kafka's setting for the promise of `flush: fsync`: no answer before the disk has the records."""


@dataclass(frozen=True)
class RunningZooKeeper:
    """A ZooKeeper of the bench's own."""

    connect: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraListener:
    """A further listener of a broker."""

    name: str
    port: int
    advertised_port: int
    """Where clients are told to reach it: another port where a proxy stands before it."""
    tls: TlsSettings | None = None
    """Of one of our brokers; one of Kafka's takes what `config` says. None: plain text."""
    sasl: SaslSettings | None = None
    """The same for logins."""

    @property
    def protocol(self) -> SecurityProtocol:
        if self.sasl is None:
            return "PLAINTEXT" if self.tls is None else "SSL"
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.advertised_port}"


def direct_listener(
    name: str, tls: TlsSettings | None = None, sasl: SaslSettings | None = None
) -> ExtraListener:
    """A listener on a free port, without a proxy before it."""
    (port,) = quiet_ports(1)
    return ExtraListener(name=name, port=port, advertised_port=port, tls=tls, sasl=sasl)


@asynccontextmanager
async def running_zookeeper(directory: Path) -> AsyncIterator[RunningZooKeeper]:
    """ZooKeeper as `heliograph up` starts it, fsync included."""
    directory.mkdir(parents=True)
    (port,) = quiet_ports(1)
    server = EmbeddedZooKeeper(directory=directory, data_directory=directory / "data", port=port)
    for path, text in server.files.items():
        path.write_text(text)
    process = await asyncio.create_subprocess_exec(
        *server.argv, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield RunningZooKeeper(server.connect, process.pid)
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def running_ours(
    directory: Path,
    zookeeper: RunningZooKeeper,
    *,
    flush: FlushMode,
    plain: bool = False,
    brokers: int = 1,
    config: Mapping[str, str] | None = None,
    extra: Sequence[ExtraListener] = (),
    code: Path = PRESENT_CODE,
) -> AsyncIterator[tuple[System, float]]:
    """Our brokers, and how many seconds they took until the last one was ready.

    `extra` listeners are for one broker. `plain` forces plain Python. `code` is the directory that
    `local_cluster` is in.
    """
    chroot = f"{zookeeper.connect}/bench{uuid.uuid4().hex[:8]}"
    processes = []
    for broker_id, port in enumerate(quiet_ports(brokers), 1):
        home = directory / f"broker-{broker_id}"
        home.mkdir(parents=True)
        listeners = [
            Listener(name="PLAINTEXT", host="127.0.0.1", port=port),
            *(
                Listener(
                    name=each.name,
                    host="127.0.0.1",
                    port=each.port,
                    advertised_port=each.advertised_port,
                    security_protocol=each.protocol,
                    tls=each.tls,
                    sasl=each.sasl,
                )
                for each in extra
            ),
        ]
        settings = BrokerSettings(
            cluster="bench",
            broker_id=broker_id,
            listeners=tuple(listeners),
            inter_broker_listener="PLAINTEXT",
            zookeeper_connect=chroot,
            zookeeper_session_timeout_ms=SESSION_TIMEOUT_MS,
            log_dirs=(str(home / "log"),),
            ready_file=str(home / "ready.json"),
            flush=flush,
            config={**SETTINGS, **(config or {})},
        )
        environment = {PURE_VARIABLE: "1"} if plain else {}
        processes.append(
            BrokerProcess(settings, home, port=port, environment=environment, code=code)
        )
    try:
        start = time.perf_counter()
        for process in processes:
            process.spawn()
        seconds = max([await seconds_until_ready(each.port, start) for each in processes])
        yield (
            System(
                OURS_PLAIN if plain else OURS if flush == "page_cache" else OURS_FSYNC,
                [each.port for each in processes],
                processes,
                [zookeeper.pid],
                [each.log_dir for each in processes],
                replicas=brokers,
                tls_bootstrap=_tls_bootstrap(extra),
            ),
            seconds,
        )
    finally:
        for process in processes:
            if process.process is not None and process.process.poll() is None:
                await process.kill()


@asynccontextmanager
async def running_kafka(
    directory: Path,
    *,
    flush: FlushMode = "page_cache",
    brokers: int = 1,
    config: Mapping[str, str] | None = None,
    extra: Sequence[ExtraListener] = (),
) -> AsyncIterator[tuple[System, float]]:
    """Kafka's brokers (KRaft, broker and controller in one), and their seconds until ready.

    `extra` listeners are for one broker; those with TLS need a keystore in `config`.
    """
    ports, controller_ports = quiet_ports(brokers), quiet_ports(brokers)
    voters = ",".join(f"{i}@127.0.0.1:{port}" for i, port in enumerate(controller_ports, 1))
    cluster_id = new_cluster_id()
    processes = []
    for node_id, (port, controller_port) in enumerate(zip(ports, controller_ports, strict=True), 1):
        home = directory / f"broker-{node_id}"
        home.mkdir(parents=True)
        given = {
            **SETTINGS,
            "controller.quorum.voters": voters,
            "broker.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            **_kafka_listeners(port, controller_port, extra),
            **({} if flush == "page_cache" else FLUSH_EACH_MESSAGE),
            **(config or {}),
        }
        processes.append(
            KafkaProcess(
                *(home, port, controller_port, given, KAFKA_JAVA_OPTIONS, cluster_id),
                broker_id=node_id,
            )
        )
    try:
        for process in processes:
            await process.format()
        start = time.perf_counter()
        for process in processes:
            process.spawn()
        seconds = max([await seconds_until_ready(each.port, start) for each in processes])
        data = [each.directory / "data" for each in processes]
        side = KAFKA if flush == "page_cache" else KAFKA_FSYNC
        tls_bootstrap = _tls_bootstrap(extra)
        system = System(
            side, ports, processes, [], data, replicas=brokers, tls_bootstrap=tls_bootstrap
        )
        yield system, seconds
    finally:
        for process in processes:
            await process.kill()


def _tls_bootstrap(extra: Sequence[ExtraListener]) -> str:
    return next((each.bootstrap for each in extra if each.protocol == "SSL"), "")


def _kafka_listeners(
    port: int, controller_port: int, extra: Sequence[ExtraListener]
) -> dict[str, str]:
    """Kafka's settings for its usual listeners and further ones."""
    plain = f"PLAINTEXT://127.0.0.1:{port}"
    listeners = [f"{each.name}://127.0.0.1:{each.port}" for each in extra]
    advertised = [f"{each.name}://127.0.0.1:{each.advertised_port}" for each in extra]
    protocols = [f"{each.name}:{each.protocol}" for each in extra]
    return {
        "listeners": ",".join([plain, f"CONTROLLER://127.0.0.1:{controller_port}", *listeners]),
        "advertised.listeners": ",".join([plain, *advertised]),
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *protocols]
        ),
        "inter.broker.listener.name": "PLAINTEXT",
    }
