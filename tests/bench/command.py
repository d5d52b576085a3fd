"""What the commands of the benches share: options, a directory, Markdown and JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from tests.bench import machine
from tests.bench.model import FULL, QUICK, Row, Scale
from tests.bench.report import Report
from tests.support.kafka_from_maven import broker_jars, tool_jars

Measure = Callable[[Path, Scale, Sequence[str], str], Awaitable[Report]]
"""(directory for everything, sizes, parts of rows' names, the command) -> what was found"""


Found = TypeVar("Found")


def chosen(rows: Sequence[Row], parts: Sequence[str]) -> list[Row]:
    """The rows whose names have one of the parts; all where there are none."""
    return [row for row in rows if not parts or any(part in row.name for part in parts)]


def kafka_version() -> str:
    return _version(broker_jars(), "kafka_2.13-")


def tools_version() -> str:
    """The version of Kafka's tools and of MirrorMaker 2."""
    return _version(tool_jars(), "kafka-tools-")


def _version(jars: Path, name: str) -> str:
    return next(jars.glob(f"{name}[0-9]*.jar")).stem.removeprefix(name)


def common_options(module: str, docstring: str | None) -> argparse.ArgumentParser:
    """What every bench can be told."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=(docstring or "").split("\n\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes: tries the harness")
    parser.add_argument("--rows", default="", help="only rows whose names have one of these parts")
    parser.add_argument("--json", type=Path, help="write everything to this file as well")
    parser.add_argument("--repeats", type=int, help="of each row; the median counts")
    parser.add_argument("--directory", type=Path, help="where the logs go: a disk, not memory")
    return parser


def run(
    module: str,
    arguments: argparse.Namespace,
    measure: Callable[[Path, Sequence[str], str], Awaitable[Found]],
) -> Found | None:
    """What `measure` found with a directory, the parts of rows' names and the command.

    None where there is no Apache Kafka to compare with, which is said.
    """
    command = shlex.join(["python", "-m", module, *sys.argv[1:]])
    parts = [part for part in arguments.rows.split(",") if part]
    try:
        broker_jars()
    except pytest.skip.Exception as reason:
        print(f"Apache Kafka is not here: {reason}", file=sys.stderr)
        return None
    machine.raise_open_files_limit()
    # A stop from outside ends the brokers too, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        return asyncio.run(_measured(measure(Path(name), parts, command)))


def main(module: str, docstring: str | None, measure: Measure) -> int:
    """Parse the options, measure, print; the exit code."""
    parser = common_options(module, docstring)
    parser.add_argument("--warm-up", type=float, help="seconds of work before the first row")
    parser.add_argument(
        "--plain", action="store_true", help="also our broker in plain Python, in a column"
    )
    arguments = parser.parse_args()
    scale = QUICK if arguments.quick else FULL
    scale = replace(scale, with_plain=arguments.plain)
    if arguments.repeats:
        scale = replace(scale, repeats=arguments.repeats)
    if arguments.warm_up is not None:
        scale = replace(scale, warm_up_seconds=arguments.warm_up)
    report = run(
        module,
        arguments,
        lambda directory, parts, command: measure(directory, scale, parts, command),
    )
    if report is None:
        return 1
    if arguments.json:
        arguments.json.write_text(json.dumps(report.json(), indent=1))
    print(report.markdown())
    return 1 if report.failures else 0


async def _measured(measuring: Awaitable[Found]) -> Found:
    return await measuring
