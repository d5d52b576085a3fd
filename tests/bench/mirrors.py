"""The mirrors of the bench as processes: MirrorMaker 2, as it comes and tuned, and ours."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from local_cluster.compilation.builds import PURE_VARIABLE
from mirror_maker.settings import LinkSettings, MirrorSettings, dump_settings
from tests.bench.mirror_model import MM2, MM2_TUNED
from tests.bench.model import OURS_PLAIN, Side
from tests.bench.processes import cpu_seconds, memory_bytes
from tests.support.kafka_from_maven import java_command

MM2_JAVA_OPTIONS: Final = (
    # KAFKA_HEAP_OPTS of connect-mirror-maker.sh, KAFKA_JVM_PERFORMANCE_OPTS of kafka-run-class.sh.
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
MM2_SETTINGS: Final[Mapping[str, str]] = {
    # One broker on each side; all else is MirrorMaker 2's default.
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
}
MM2_TUNING: Final[Mapping[str, str]] = {
    "tasks.max": "4",
    "producer.compression.type": "lz4",
    "producer.batch.size": "262144",
    "consumer.max.poll.records": "5000",
}
"""The consumer's is given to the source cluster, the producer's to the target."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Where a mirror finds its source and its target."""

    source_bootstrap: str
    target_bootstrap: str
    ca_file: Path | None = None
    """Both are reached by TLS where there is one."""


@dataclass(frozen=True, slots=True)
class Route:
    """What one mirror copies. Each run has a new alias, so none resumes where another stopped."""

    alias: str
    topics: str
    """A regular expression."""
    ends: Ends

    @property
    def target_alias(self) -> str:
        return f"{self.alias}t"

    def copy_of(self, topic: str) -> str:
        return f"{self.alias}.{topic}"


@dataclass(frozen=True, slots=True)
class RunningMirror:
    """A mirror's process."""

    process: subprocess.Popen[bytes]
    started_at: float
    """Of time.perf_counter."""
    log: Path

    def cpu_seconds(self) -> float:
        return cpu_seconds([self.process.pid])

    def memory_mb(self) -> float:
        return memory_bytes([self.process.pid]) / 1e6

    def check_running(self) -> None:
        """Raises RuntimeError with the end of its log where the mirror has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the mirror ended by itself:\n{self.log_end()}")

    def log_end(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


@asynccontextmanager
async def running_mirror(side: Side, route: Route, directory: Path) -> AsyncIterator[RunningMirror]:
    """Start a mirror and return at once; it is killed at the end."""
    home = directory / route.alias
    home.mkdir(parents=True)
    command = _mm2(side, route, home) if side in (MM2, MM2_TUNED) else _ours(route, home)
    log = home / "mirror.log"
    with log.open("wb") as output:
        started_at = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            cwd=Path(__file__).parent.parent.parent,
            env={**os.environ, PURE_VARIABLE: "1"} if side == OURS_PLAIN else None,
        )
    try:
        yield RunningMirror(process, started_at, log)
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)


def mm2_properties(side: Side, route: Route) -> dict[str, str]:
    """The whole configuration of MirrorMaker 2 for one route."""
    source, target = route.alias, route.target_alias
    properties = {
        **MM2_SETTINGS,
        "clusters": f"{source}, {target}",
        f"{source}.bootstrap.servers": route.ends.source_bootstrap,
        f"{target}.bootstrap.servers": route.ends.target_bootstrap,
        f"{source}->{target}.enabled": "true",
        f"{source}->{target}.topics": route.topics,
        f"{target}->{source}.enabled": "false",
    }
    if side == MM2_TUNED:
        for name, value in MM2_TUNING.items():
            prefix = {"producer": f"{target}.", "consumer": f"{source}."}
            properties[prefix.get(name.partition(".")[0], "") + name] = value
    if route.ends.ca_file is not None:
        for alias in (source, target):
            properties[f"{alias}.security.protocol"] = "SSL"
            properties[f"{alias}.ssl.truststore.type"] = "PEM"
            properties[f"{alias}.ssl.truststore.location"] = str(route.ends.ca_file)
    return properties


def _mm2(side: Side, route: Route, home: Path) -> list[str]:
    path = home / "mm2.properties"
    path.write_text("".join(f"{k}={v}\n" for k, v in mm2_properties(side, route).items()))
    program = "org.apache.kafka.connect.mirror.MirrorMaker"
    return [*java_command(program, options=MM2_JAVA_OPTIONS), str(path)]


def _ours(route: Route, home: Path) -> list[str]:
    security = PLAINTEXT
    if route.ends.ca_file is not None:
        security = ClientSecurity(protocol="SSL", ca_file=str(route.ends.ca_file))
    settings = MirrorSettings(
        worker_id="bench",
        target_alias=route.target_alias,
        target_bootstrap=route.ends.target_bootstrap,
        target_security=security,
        links=(
            LinkSettings(
                name=f"{route.alias}-{route.target_alias}",
                source_alias=route.alias,
                source_bootstrap=route.ends.source_bootstrap,
                source_security=security,
                topics=(route.topics,),
                sync_group_offsets=True,
            ),
        ),
        ready_file=str(home / "ready.json"),
    )
    path = home / "settings.json"
    path.write_bytes(dump_settings(settings))
    return [sys.executable, "-m", "mirror_maker", "--settings", str(path)]
