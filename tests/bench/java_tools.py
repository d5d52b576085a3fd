"""Kafka's own performance tools (Java, 4.3) against any broker, and what they print, read."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.raw_frames import RECORD_BYTES
from tests.support.kafka_from_maven import java_command

TOOL_SECONDS_MAX: Final = 300.0
HEAP: Final = ("-Xmx512m", "-Xms512m")
PAYLOAD_LINES: Final = 1_000
MIB: Final = 1_048_576

_PRODUCED: Final = re.compile(
    r"(?P<records>\d+) records sent, (?P<per_second>[\d.]+) records/sec .*?"
    r"(?P<mean>[\d.]+) ms avg latency, (?P<max>[\d.]+) ms max latency, "
    r"(?P<p50>\d+) ms 50th, (?P<p95>\d+) ms 95th, (?P<p99>\d+) ms 99th, (?P<p999>\d+) ms 99.9th"
)
_MEAN: Final = re.compile(r"Avg latency: ([\d.]+) ms")
_PERCENTILES: Final = re.compile(r"50th = (\d+), 99th = (\d+), 99.9th = (\d+)")


@dataclass(frozen=True, slots=True)
class Produced:
    """The last line of ProducerPerformance."""

    records_per_second: float
    mean_ms: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class Latencies:
    """What EndToEndLatency tells; its percentiles are whole milliseconds, cut off."""

    mean_ms: float
    p50_ms: float
    p99_ms: float
    p999_ms: float


async def producer_performance(
    bootstrap: str,
    topic: str,
    records: int,
    payload: Path,
    properties: Mapping[str, str],
    records_per_second: int = -1,
) -> Produced:
    """Produce at that rate, or (-1) as fast as one Java producer can.

    Takes the lines of `payload` in random order.
    """
    return read_produced(
        await _run(
            "ProducerPerformance",
            *("--bootstrap-server", bootstrap, "--topic", topic),
            *("--num-records", str(records), "--throughput", str(records_per_second)),
            *("--payload-file", str(payload)),
            *("--command-property", *(f"{name}={value}" for name, value in properties.items())),
        )
    )


async def consumer_performance(
    bootstrap: str,
    topic: str,
    records: int,
    group: str,
    properties: Mapping[str, str] | None = None,
) -> float:
    """Read so many records of a topic from its start; MB/s without joining the group."""
    given = (("--command-property", f"{key}={value}") for key, value in (properties or {}).items())
    return read_consumed(
        await _run(
            "ConsumerPerformance",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
            *("--num-records", str(records), "--hide-header", "--timeout", "60000"),
            *itertools.chain.from_iterable(given),
        )
    )


async def end_to_end_latency(bootstrap: str, topic: str, records: int) -> Latencies:
    """One record at a time, acks=all, from its send until it is read."""
    return read_latencies(
        await _run(
            "EndToEndLatency",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)),
            *("--producer-acks", "all", "--record-size", "100"),
        )
    )


def read_produced(printed: str) -> Produced:
    """Raises ValueError where no summary was printed."""
    found = list(_PRODUCED.finditer(printed))
    if not found:
        raise ValueError(f"ProducerPerformance printed no summary: {printed[-2000:]}")
    last = found[-1]
    return Produced(
        float(last["per_second"]),
        *(float(last[name]) for name in ("mean", "p50", "p99", "p999", "max")),
    )


def read_consumed(printed: str) -> float:
    """MB/s of the fetching alone. Raises ValueError where no summary was printed."""
    for line in reversed(printed.splitlines()):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 10:
            return float(fields[8]) * MIB / 1e6
    raise ValueError(f"ConsumerPerformance printed no summary: {printed[-2000:]}")


def read_latencies(printed: str) -> Latencies:
    """Raises ValueError where no summary was printed."""
    mean, percentiles = _MEAN.search(printed), _PERCENTILES.search(printed)
    if mean is None or percentiles is None:
        raise ValueError(f"EndToEndLatency printed no summary: {printed[-2000:]}")
    return Latencies(float(mean[1]), *(float(each) for each in percentiles.groups()))


def write_payload(path: Path) -> Path:
    """A file of records for ProducerPerformance, one a line, that compress to about half."""
    rng = random.Random(1)
    lines = (rng.randbytes(RECORD_BYTES // 2).hex() for _ in range(PAYLOAD_LINES))
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


async def _run(tool: str, *arguments: str) -> str:
    """What the tool printed. Raises RuntimeError where it failed."""
    process = await asyncio.create_subprocess_exec(
        *java_command(f"org.apache.kafka.tools.{tool}", options=HEAP),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(TOOL_SECONDS_MAX):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    printed = output.decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{tool} {' '.join(arguments)}: {printed[-2000:]}")
    return printed
