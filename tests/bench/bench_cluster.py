"""Three of our brokers and three of Apache Kafka's side by side: acks=all, three replicas.

    .venv/bin/python -m tests.bench.bench_cluster [--quick] [--rows PART,PART] [--json FILE]

One cluster runs at a time. Prints Markdown as the bench of one broker does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from local_cluster.compilation.finder import install
from tests.bench import java_tools, machine, rows_cluster
from tests.bench.bench import Bench, progress
from tests.bench.command import chosen, kafka_version, main
from tests.bench.model import READY_SECONDS, Row, Sample, Scale, Wanted, Work
from tests.bench.report import Report
from tests.bench.rows_cluster import BROKERS, CLUSTER_CONFIG, PARTITIONS
from tests.bench.rows_java import IDEMPOTENT
from tests.bench.run import run_works
from tests.bench.starting import SESSION_TIMEOUT_MS, running_kafka, running_ours, running_zookeeper
from tests.bench.systems import KAFKA_JAVA_OPTIONS, SETTINGS, System

START = Row(
    name="cluster-start",
    title="Start of three brokers on empty log directories",
    wanted={READY_SECONDS: [Wanted(1.0)]},
)


async def measure(directory: Path, scale: Scale, parts: Sequence[str], command: str) -> Report:
    """One cluster after the other: start it, warm it up, do the works."""
    say = progress()
    bench = Bench(scale, directory, java_tools.write_payload(directory / "payload.txt"))
    rows = chosen([START, *rows_cluster.works()], parts)
    works = [row for row in rows if isinstance(row, Work)]
    described = machine.describe(directory)
    samples: list[Sample] = []
    config = CLUSTER_CONFIG
    async with running_zookeeper(directory / "zookeeper") as zookeeper:
        runnings = [
            running_kafka(directory / "kafka", brokers=BROKERS, config=config),
            running_ours(
                directory / "ours", zookeeper, flush="page_cache", brokers=BROKERS, config=config
            ),
            running_ours(
                directory / "fsync", zookeeper, flush="fsync", brokers=BROKERS, config=config
            ),
        ]
        if scale.with_plain:
            runnings.append(
                running_ours(
                    directory / "plain",
                    zookeeper,
                    flush="page_cache",
                    plain=True,
                    brokers=BROKERS,
                    config=config,
                )
            )
        for running in runnings:
            async with running as (system, seconds):
                say(f"start: {system.side} was ready after {seconds:.2f} s")
                samples.append(Sample(START.name, system.side, {READY_SECONDS: seconds}))
                idle = [work for work in works if work is works[0] and "idle" in work.name]
                samples += await run_works(bench, [system], idle, say)
                others = [work for work in works if work not in idle]
                if others:
                    await warm_up(bench, system, say)
                samples += await run_works(bench, [system], others, say)
    return Report(
        "Three of our brokers and three of Apache Kafka's",
        [command],
        described,
        _settings(scale),
        rows,
        samples,
        failures=bench.failures,
    )


async def warm_up(bench: Bench, system: System, say: Callable[[str], None]) -> None:
    """The Java producer with its defaults, again and again until its time is over."""
    start = time.monotonic()
    records = 0
    while time.monotonic() < start + bench.scale.warm_up_seconds:
        async with system.topic(bench.new_name("warm-up"), PARTITIONS) as topic:
            count = bench.scale.megabytes * 250
            await java_tools.producer_performance(
                system.bootstrap, topic, count, bench.payload, IDEMPOTENT
            )
        records += count
    say(f"warm-up: {system.side} has taken {records:,} records")


def _settings(scale: Scale) -> dict[str, str]:
    given = {**SETTINGS, **CLUSTER_CONFIG}
    return {
        "Kafka": f"{kafka_version()}, KRaft, broker and controller in one, 3 of them; "
        f"broker.session.timeout.ms={SESSION_TIMEOUT_MS}; {' '.join(KAFKA_JAVA_OPTIONS)}",
        "ours": "3 brokers, one ZooKeeper (its CPU and memory count as ours), session timeout "
        f"{SESSION_TIMEOUT_MS} ms; flush: page_cache (Kafka's own promise), and flush: fsync; "
        f"{install().text}",
        "both": ", ".join(f"{name}={value}" for name, value in given.items())
        + f"; {PARTITIONS} partitions, three replicas, acks=all; all else is the default",
        "warm-up": f"{scale.warm_up_seconds:g} s of the Java producer with its defaults",
        "repeats": f"{scale.repeats}, one cluster after the other; the median is shown",
    }


if __name__ == "__main__":
    sys.exit(main("tests.bench.bench_cluster", __doc__, measure))
