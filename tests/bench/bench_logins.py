"""What a storm of SCRAM logins does to the small produces of others: Apache Kafka and ours.

    python -m tests.bench.bench_logins [--quick] [--rounds N] [--seconds S] [--per-second N]

One broker of each runs at a time. A raw client produces records of 1 kB at a steady pace on the
plain listener, first alone, then while other processes log in on another listener, with TLS and
without. The promise is for ours without TLS: with 1,000 logins a second, p99 is at most twice that
of the quiet time. Exits with 1 if it is missed. `--quick` tries the harness, and judges nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from local_cluster.client.admin.scram_users import ScramChange, alter_scram_users
from local_cluster.client.client import KafkaClient
from local_cluster.security.authentication.listener_security import SaslSettings
from tests.bench import machine, raw_frames, raw_loops
from tests.bench.command import kafka_version
from tests.bench.login_load import MECHANISM
from tests.bench.starting import (
    ExtraListener,
    direct_listener,
    running_kafka,
    running_ours,
    running_zookeeper,
)
from tests.bench.systems import System
from tests.support.keystore import KeyStore, make_keystore

USER: Final = "storm"
PASSWORD: Final = "of-the-storm"
KAFKA: Final = "Kafka"
OURS: Final = "ours"
STORMS: Final = ("SCRAM", "SCRAM_TLS")
"""Names of the listeners."""
WORKERS: Final = 4
PRODUCES_PER_SECOND: Final = 200
RATIO_MAX: Final = 2.0
SETTLE_SECONDS: Final = 1.0


@dataclass(frozen=True)
class Sizes:
    """How much is done."""

    rounds: int
    seconds: float
    warm_up_seconds: float
    logins_per_second: int


QUICK: Final = Sizes(rounds=1, seconds=2.0, warm_up_seconds=1.0, logins_per_second=40)
FULL: Final = Sizes(rounds=5, seconds=20.0, warm_up_seconds=20.0, logins_per_second=1_000)


@dataclass(frozen=True)
class Measured:
    """One quiet time and the storm after it."""

    quiet_p99_ms: float
    storm_p50_ms: float
    storm_p99_ms: float
    logins_per_second: float
    broker_us_per_login: float
    """Its CPU, with that of the produces beside."""

    @property
    def ratio(self) -> float:
        return self.storm_p99_ms / self.quiet_p99_ms


class Storms:
    """One system, the produces of others, and the processes that log in."""

    def __init__(
        self, system: System, ports: Mapping[str, int], keystore: KeyStore, password_file: Path
    ) -> None:
        self._system = system
        self._ports = ports
        self._keystore = keystore
        self._password_file = password_file

    async def measure(self, sizes: Sizes) -> dict[str, list[Measured]]:
        async with KafkaClient(self._system.bootstrap) as client:
            errors = await alter_scram_users(client, [ScramChange(USER, MECHANISM, PASSWORD)])
            assert errors == [None], errors
        found: dict[str, list[Measured]] = {storm: [] for storm in STORMS}
        async with self._system.topic("others", 1) as topic:
            for storm in STORMS:
                await self._round(topic, storm, sizes, sizes.warm_up_seconds)
            for _ in range(sizes.rounds):
                for storm in STORMS:
                    measured = await self._round(topic, storm, sizes, sizes.seconds)
                    found[storm].append(measured)
        return found

    async def _round(self, topic: str, storm: str, sizes: Sizes, seconds: float) -> Measured:
        quiet = await self._produce(topic, seconds)
        with self._system.cost() as cost:
            storming = [
                asyncio.create_task(self._log_in(storm, sizes, seconds + SETTLE_SECONDS, worker))
                for worker in range(WORKERS)
            ]
            await asyncio.sleep(SETTLE_SECONDS)
            storm_ms = await self._produce(topic, seconds)
            logins = sum(await asyncio.gather(*storming))
        return Measured(
            raw_loops.percentile(quiet, 0.99),
            raw_loops.percentile(storm_ms, 0.5),
            raw_loops.percentile(storm_ms, 0.99),
            logins / (seconds + SETTLE_SECONDS),
            cost.cpu_seconds / max(logins, 1) * 1e6,
        )

    async def _produce(self, topic: str, seconds: float) -> list[float]:
        """The latency of each small produce of a client that is there all the time."""
        batch = raw_frames.make_batch(1, record_bytes=1_000)
        frame = raw_frames.produce_frame(topic, {0: batch})
        with self._system.connected() as (connection,):
            return await asyncio.to_thread(
                raw_loops.produce_at_pace, connection, frame, PRODUCES_PER_SECOND, seconds
            )

    async def _log_in(self, storm: str, sizes: Sizes, seconds: float, worker: int) -> int:
        """Run one process of the storm; how often it logged in."""
        trust = ("--ca-file", str(self._keystore.ca_file)) if storm == "SCRAM_TLS" else ()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.bench.login_load", "--port", str(self._ports[storm])),
            *("--user", USER, "--password-file", str(self._password_file), *trust),
            *("--per-second", str(sizes.logins_per_second / WORKERS)),
            *("--seconds", str(seconds), "--worker", str(worker)),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError("a process of the storm failed, see above")
        return int(json.loads(output)["logins"])


@asynccontextmanager
async def _running(
    side: str, directory: Path, keystore: KeyStore, password_file: Path
) -> AsyncIterator[Storms]:
    """Start a broker with its two listeners for logins."""
    sasl = SaslSettings(mechanisms=(MECHANISM,))
    extra = (
        direct_listener("SCRAM", sasl=sasl),
        direct_listener("SCRAM_TLS", tls=keystore.listener_tls, sasl=sasl),
    )
    async with AsyncExitStack() as stack:
        if side == KAFKA:
            config = {**keystore.broker_config, **_kafka_logins(extra)}
            running = running_kafka(directory / KAFKA, config=config, extra=extra)
        else:
            zookeeper = await stack.enter_async_context(running_zookeeper(directory / "zookeeper"))
            running = running_ours(directory / OURS, zookeeper, flush="page_cache", extra=extra)
        system, _ = await stack.enter_async_context(running)
        ports = {each.name: each.port for each in extra}
        yield Storms(system, ports, keystore, password_file)


def _kafka_logins(extra: Sequence[ExtraListener]) -> dict[str, str]:
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    config = {}
    for each in extra:
        prefix = f"listener.name.{each.name.lower()}"
        config[f"{prefix}.sasl.enabled.mechanisms"] = MECHANISM
        config[f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config"] = login
    return config


async def measure(directory: Path, sides: Sequence[str], sizes: Sizes) -> bool:
    """Print what was measured; whether the promise holds."""
    keystore = await asyncio.to_thread(make_keystore, directory / "keys")
    password_file = directory / "password"
    password_file.write_text(PASSWORD)
    holds = True
    print(
        "| | p99 quiet, ms | p50 storm, ms | p99 storm, ms | ratio | logins/s | broker us/login |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for side in sides:
        async with _running(side, directory, keystore, password_file) as storms:
            for storm, rounds in (await storms.measure(sizes)).items():
                print(_row(f"{side}, {storm}", rounds), flush=True)
                if (side, storm) == (OURS, "SCRAM"):
                    holds = statistics.median(each.ratio for each in rounds) <= RATIO_MAX
    return holds


def _row(name: str, rounds: Sequence[Measured]) -> str:
    def median(field: str) -> float:
        return float(statistics.median(getattr(each, field) for each in rounds))

    return (
        f"| {name} | {median('quiet_p99_ms'):.2f} | {median('storm_p50_ms'):.2f} "
        f"| {median('storm_p99_ms'):.2f} | {median('ratio'):.2f} "
        f"| {median('logins_per_second'):.0f} | {median('broker_us_per_login'):.0f} |"
    )


def main() -> int:
    """Run the benchmark; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: tries the harness")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="of a quiet time, and of a storm")
    parser.add_argument("--per-second", type=int, help="logins")
    parser.add_argument("--only-ours", action="store_true", help="without Apache Kafka")
    options = parser.parse_args()
    chosen = QUICK if options.quick else FULL
    sizes = Sizes(
        options.rounds or chosen.rounds,
        options.seconds or chosen.seconds,
        chosen.warm_up_seconds,
        options.per_second or chosen.logins_per_second,
    )
    sides = [OURS] if options.only_ours else [KAFKA, OURS]
    if KAFKA in sides:
        try:
            print(f"Apache Kafka {kafka_version()}")
        except pytest.skip.Exception as reason:
            print(f"Apache Kafka is not here: {reason}", file=sys.stderr)
            sides.remove(KAFKA)
    machine.raise_open_files_limit()
    with tempfile.TemporaryDirectory() as directory:
        holds = asyncio.run(measure(Path(directory), sides, sizes))
    return 0 if holds or options.quick else 1


if __name__ == "__main__":
    sys.exit(main())
