"""Our broker and Apache Kafka side by side, driven by the same outside clients.

    .venv/bin/python -m tests.bench.bench_broker [--quick] [--rows PART,PART] [--json FILE]

Prints Markdown with every figure of both, their ratio, what is wanted and whether it is reached.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys
import tempfile
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import java_tools, machine, rows_curves, rows_disk, rows_java, rows_raw
from tests.bench.bench import Bench, progress
from tests.bench.model import FULL, QUICK, Row, Sample, Scale, Work
from tests.bench.report import Report
from tests.bench.rows_process import IDLE, START, start_and_idle
from tests.bench.run import run_works, warm_up
from tests.bench.starting import running_kafka, running_ours, running_zookeeper
from tests.bench.systems import KAFKA_JAVA_OPTIONS, SETTINGS, System
from tests.kafka_from_maven import kafka_jars


async def measure(directory: Path, scale: Scale, wanted_rows: list[str], command: str) -> Report:
    """Start the systems, warm them up, do the works in turn."""
    say = progress()
    bench = Bench(scale, directory, java_tools.write_payload(directory / "payload.txt"))
    rows: list[Row] = [
        START,
        IDLE,
        *rows_java.works(),
        *rows_raw.works(),
        *rows_disk.works(),
        *rows_curves.works(scale.curve_points),
    ]
    if wanted_rows:
        rows = [row for row in rows if any(part in row.name for part in wanted_rows)]
    described = machine.describe(directory)
    samples: list[Sample] = []
    warmed: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        zookeeper = await stack.enter_async_context(running_zookeeper(directory / "zookeeper"))
        if START in rows or IDLE in rows:
            samples += await start_and_idle(bench, zookeeper, say)
        works = [row for row in rows if isinstance(row, Work)]
        if works:
            systems: list[System] = []
            for running in (
                running_kafka(directory / "kafka"),
                running_ours(directory / "ours", zookeeper, flush="page_cache"),
                running_ours(directory / "ours-fsync", zookeeper, flush="fsync"),
            ):
                system, _ = await stack.enter_async_context(running)
                systems.append(system)
            for system in systems:
                warmed[system.side] = await warm_up(bench, system, say)
            samples += await run_works(bench, systems, works, say)
    return Report(
        "Our broker and Apache Kafka",
        command,
        described,
        _settings(scale, warmed),
        rows,
        samples,
    )


def _settings(scale: Scale, warmed: dict[str, int]) -> dict[str, str]:
    version = next(kafka_jars().glob("kafka_2.13-*.jar")).stem.removeprefix("kafka_2.13-")
    requests = ", ".join(f"{side} {count:,}" for side, count in warmed.items())
    return {
        "Kafka": f"{version}, KRaft, broker and controller in one; {' '.join(KAFKA_JAVA_OPTIONS)}",
        "ours": "flush: page_cache (Kafka's own promise), and flush: fsync (group commit); "
        "the CPU of ZooKeeper counts as ours",
        "both": ", ".join(f"{name}={value}" for name, value in SETTINGS.items())
        + "; one replica, acks=all; all else is the default",
        "warm-up": f"{scale.warm_up_seconds:g} s of produce and fetch each; requests: {requests}",
        "repeats": f"{scale.repeats}, in turn; the median is shown (curves and small produces: 1)",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: tries the harness")
    parser.add_argument("--rows", default="", help="only rows whose names have one of these parts")
    parser.add_argument("--json", type=Path, help="write everything to this file as well")
    parser.add_argument("--repeats", type=int, help="instead of the scale's own")
    parser.add_argument("--directory", type=Path, help="where the logs go: a disk, not memory")
    arguments = parser.parse_args()
    scale = QUICK if arguments.quick else FULL
    if arguments.repeats:
        scale = replace(scale, repeats=arguments.repeats)
    command = shlex.join(["python", "-m", "tests.bench.bench_broker", *sys.argv[1:]])
    parts = [part for part in arguments.rows.split(",") if part]
    try:
        kafka_jars()
    except pytest.skip.Exception as reason:
        print(f"Apache Kafka is not here: {reason}", file=sys.stderr)
        return 1
    machine.raise_open_files_limit()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        report = asyncio.run(measure(Path(name), scale, parts, command))
    if arguments.json:
        arguments.json.write_text(json.dumps(report.json(), indent=1))
    print(report.markdown())
    return 0


if __name__ == "__main__":
    sys.exit(main())
