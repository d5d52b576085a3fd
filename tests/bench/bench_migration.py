"""How long a group's partitions get no records while its members change protocol or come back.

    .venv/bin/python -m tests.bench.bench_migration [--rounds N] [--parts PART...] [--json FILE]

Plays the programs of tests/compat/java44 on Apache Kafka and on our broker by turns, each run on a
fresh broker:

- `MigrateGroup`: three members change from the classic to the consumer protocol, one by one, and
  back. The pause of a phase is the longest time without a record in any partition.
- `ReturnStatic`: a static member of the classic protocol stops and comes back.

Prints Markdown: for each measured time the median and the longest of both sides.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
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
SIDES: Final = ("Kafka", "ours")
ASSIGNORS: Final = ("CooperativeStickyAssignor", "RangeAssignor")
PARTS: Final = ("migrate", "return")
KINDS: Final = ("dynamic", "static")
HOLD_MS: Final = 3_000
"""How long a settled group is left alone, so that what comes late counts as well."""
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
    if side == "Kafka":
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
        yield f"{assignor}, {kind}, to {phase['to']}", phase["pause_ms"]


def _returns(assignor: str, found: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
    for name in ("at_once", "in_session", "taken_over", "after_session"):
        yield f"{assignor}, static member, {name}", found[name]


async def _play_once(
    part: str, side: str, zookeeper: str, assignor: str, directory: Path
) -> tuple[list[tuple[str, int]], int]:
    """Play one part on one side; return its times, and how often something was lost or doubled."""
    measured: list[tuple[str, int]] = []
    wrong = 0
    if part == "return":
        async with _running(side, zookeeper, directory / "return") as bootstrap:
            found = await _play("ReturnStatic", bootstrap, assignor, str(SESSION_MS))
        return list(_returns(assignor, found)), wrong
    for kind in KINDS:
        async with _running(side, zookeeper, directory / kind) as bootstrap:
            found = await _play("MigrateGroup", bootstrap, assignor, kind, str(HOLD_MS))
        wrong += found["produced"] - found["processed"] + found["twice"]
        wrong += found["lost"] + found["refused"] + found["went_back"]
        measured += _pauses(assignor, kind, found)
    return measured, wrong


async def measure(
    rounds: int, parts: Sequence[str], directory: Path
) -> tuple[Times, dict[str, int]]:
    """Return the times, and how often anything was lost, doubled or refused by side."""
    times: Times = {}
    wrong = dict.fromkeys(SIDES, 0)
    zookeeper = ZooKeeperProcess(directory / "zookeeper")
    address = f"127.0.0.1:{zookeeper.server.port}"
    try:
        for number, part, assignor in product(range(rounds), parts, ASSIGNORS):
            # The side that begins changes, so that neither has the quieter half of a minute.
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                place = directory / f"{number}-{part}-{assignor}-{side}"
                measured, failed = await _play_once(part, side, address, assignor, place)
                wrong[side] += failed
                for what, milliseconds in measured:
                    times.setdefault((what, side), []).append(milliseconds)
                print(f"{number} {side}: {measured}", file=sys.stderr, flush=True)
    finally:
        zookeeper.kill()
    return times, wrong


def table(times: Times) -> str:
    """Return a Markdown table: median and longest time of both sides, in milliseconds."""
    lines = [
        "| measured | Kafka: median | longest | ours: median | longest |",
        "|---|---|---|---|---|",
    ]
    for what in dict.fromkeys(what for what, _ in times):
        cells = [what]
        for side in SIDES:
            found = times[what, side]
            cells += [f"{statistics.median(found):,.0f}", f"{max(found):,}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        prog="python -m tests.bench.bench_migration",
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each is played")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--json", type=Path, help="a file for all times")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="migration-") as directory:
        for name, value in machine.describe(Path(directory)).items():
            print(f"- {name}: {value}")
        times, wrong = asyncio.run(measure(options.rounds, options.parts, Path(directory)))
    print(f"Apache Kafka {kafka_version()}; both sides: {CONFIG}; session {SESSION_MS} ms")
    print(f"records lost or doubled, partitions lost, commits refused: {wrong}\n")
    print(table(times))
    if options.json is not None:
        found = {f"{side}: {what}": each for (what, side), each in times.items()}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
