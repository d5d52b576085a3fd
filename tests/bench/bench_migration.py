"""How long a group's partitions get no records while its members change protocol or come back.

    .venv/bin/python -m tests.bench.bench_migration [--rounds N] [--parts PART...] [--json FILE]

Plays the programs of tests/compat/java44 on Apache Kafka and on our broker by turns, about seven
minutes a round. In each round each side has a fresh broker:

- `MigrateGroup`: three members change from the classic to the consumer protocol, one by one, and
  back. The pause of a phase is the longest time without a record in any partition.
- `ReturnStatic`: a static member of the classic protocol stops and comes back. The programs of
  both assignors run at once: they wait for timeouts most of the time.

Prints Markdown: for each measured time the median and the longest of both sides, and ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any, Final

from tests.bench import machine
from tests.bench.command import kafka_version
from tests.support.cluster import running_broker
from tests.support.kafka_from_maven import broker_jars, java_command, running_kafka
from tests.support.zookeeper_process import ZooKeeperProcess

PROGRAMS: Final = Path(__file__).parents[1] / "compat" / "java44"
KAFKA: Final = "Kafka"
OURS: Final = "ours"
SIDES: Final = (KAFKA, OURS)
ASSIGNORS: Final = {"CooperativeStickyAssignor": "cooperative", "RangeAssignor": "range"}
"""Java's class and the name in rows."""
PARTS: Final = ("migrate", "return")
KINDS: Final = ("dynamic", "static")
HOLD_MS: Final = 1_500
"""How long a settled group is left alone, so that what comes late counts as well. It is longer than
the interval of assignments: a phase does not wait for the former one."""
SESSION_MS: Final = 6_000
CONFIG: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
}
"""Of both sides; all other settings are the defaults."""

Times = dict[tuple[str, str], list[int]]
"""Milliseconds by (what was measured, side), in the order of the runs."""


@asynccontextmanager
async def _running(side: str, zookeeper: str, directory: Path) -> AsyncIterator[str]:
    """Start a broker of this side; give its address."""
    if side == KAFKA:
        async with running_kafka(directory, CONFIG) as kafka:
            yield kafka.bootstrap
    else:
        async with running_broker(zookeeper, directory, config=CONFIG) as ours:
            yield ours.bootstrap


async def _play(program: str, bootstrap: str, *arguments: str) -> dict[str, Any]:
    """Run a program and return what it found. Raises RuntimeError."""
    process = await asyncio.create_subprocess_exec(
        *java_command(str(PROGRAMS / f"{program}.java"), jars=broker_jars()),
        *(bootstrap, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    if process.returncode:
        raise RuntimeError(errors.decode(errors="replace")[-3000:])
    found: dict[str, Any] = json.loads(output.decode().splitlines()[-1])
    if found["failures"]:
        raise RuntimeError(found["failures"])
    return found


def _pauses(assignor: str, kind: str, found: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
    """Yield the pauses of a migration; the name says where the member goes."""
    for phase in found["phases"]:
        yield f"{ASSIGNORS[assignor]}, {kind}, to {phase['to']}", phase["pause_ms"]


def _returns(assignor: str, found: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
    for name in ("at_once", "in_session", "taken_over", "after_session"):
        yield f"{ASSIGNORS[assignor]}, static member, {name}", found[name]


async def _migrate(bootstrap: str) -> tuple[list[tuple[str, int]], int]:
    """Play all migrations, one after the other.

    Return their times, and how often something was lost, doubled or refused.
    """
    measured: list[tuple[str, int]] = []
    wrong = 0
    for assignor, kind in product(ASSIGNORS, KINDS):
        found = await _play("MigrateGroup", bootstrap, assignor, kind, str(HOLD_MS))
        wrong += found["produced"] - found["processed"] + found["twice"]
        wrong += found["lost"] + found["refused"] + found["went_back"]
        measured += _pauses(assignor, kind, found)
    return measured, wrong


async def _return(bootstrap: str) -> list[tuple[str, int]]:
    """Play the return of static members with all assignors at once."""
    plays = (_play("ReturnStatic", bootstrap, each, str(SESSION_MS)) for each in ASSIGNORS)
    found = dict(zip(ASSIGNORS, await asyncio.gather(*plays), strict=True))
    return [each for assignor in found for each in _returns(assignor, found[assignor])]


async def measure(
    rounds: int, parts: Sequence[str], directory: Path
) -> tuple[Times, dict[str, int]]:
    """Return the times, and how often anything was lost, doubled or refused by side."""
    times: Times = {}
    wrong = dict.fromkeys(SIDES, 0)
    zookeeper = ZooKeeperProcess(directory / "zookeeper")
    address = f"127.0.0.1:{zookeeper.server.port}"
    try:
        for number in range(rounds):
            # The side that begins changes, so that neither has the quieter half of a minute.
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                measured: list[tuple[str, int]] = []
                async with _running(side, address, directory / f"{number}-{side}") as bootstrap:
                    if "migrate" in parts:
                        measured, failed = await _migrate(bootstrap)
                        wrong[side] += failed
                    if "return" in parts:
                        measured += await _return(bootstrap)
                for what, milliseconds in measured:
                    times.setdefault((what, side), []).append(milliseconds)
                print(f"{number} {side}: {measured}", file=sys.stderr, flush=True)
    finally:
        zookeeper.kill()
    return times, wrong


def table(times: Times) -> str:
    """Return a Markdown table: median and longest time in milliseconds, ours through Kafka's."""
    lines = [
        "| measured | Kafka: median | longest | ours: median | longest | ratio: median | longest |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for what in dict.fromkeys(what for what, _ in times):
        kafka, ours = (_summary(times[what, side]) for side in SIDES)
        figures = [f"{each:,.0f}" for each in (*kafka, *ours)]
        ratios = [f"{own / other:.2f}" for own, other in zip(ours, kafka, strict=True)]
        lines.append(f"| {' | '.join([what, *figures, *ratios])} |")
    return "\n".join(lines)


def longer_rows(times: Times) -> list[str]:
    """Return what takes ours longer, by the median."""
    return [
        what
        for what in dict.fromkeys(what for what, _ in times)
        if _summary(times[what, OURS])[0] > _summary(times[what, KAFKA])[0]
    ]


def _summary(values: Sequence[int]) -> tuple[float, float]:
    return statistics.median(values), max(values)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        prog="python -m tests.bench.bench_migration",
    )
    parser.add_argument("--rounds", type=int, default=1, help="how often each is played")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--json", type=Path, help="a file for all times")
    options = parser.parse_args()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="migration-") as directory:
        for name, value in machine.describe(Path(directory)).items():
            print(f"- {name}: {value}")
        times, wrong = asyncio.run(measure(options.rounds, options.parts, Path(directory)))
    print(f"Apache Kafka {kafka_version()}; both sides: {CONFIG}; session {SESSION_MS} ms")
    print(f"rounds: {options.rounds}, in {time.monotonic() - began_s:.0f} s")
    print(f"records lost or doubled, partitions lost, commits refused: {wrong}\n")
    print(table(times))
    print(f"\nlonger with ours: {'; '.join(longer_rows(times)) or 'nothing'}")
    if options.json is not None:
        found = {f"{side}: {what}": each for (what, side), each in times.items()}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
