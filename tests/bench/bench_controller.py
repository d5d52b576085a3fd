"""A controller of 10,000 partitions that goes: three of our brokers, three of Apache Kafka's.

    .venv/bin/python -m tests.bench.bench_controller [--quick] [--rows PART,PART] [--json FILE]

One cluster runs at a time. Prints Markdown as the bench of one broker does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench import machine, rows_controller
from tests.bench.bench import Bench, progress
from tests.bench.command import chosen, kafka_version, main
from tests.bench.model import LED_SECONDS, Row, Sample, Scale, Work
from tests.bench.report import Report
from tests.bench.rows_cluster import BROKERS, CLUSTER_CONFIG
from tests.bench.run import run_works
from tests.bench.starting import SESSION_TIMEOUT_MS, running_kafka, running_ours, running_zookeeper
from tests.bench.systems import KAFKA_JAVA_OPTIONS, SETTINGS

CREATE = Row(name="controller-create", title="The topics are created, ten to a request")


async def measure(directory: Path, scale: Scale, parts: Sequence[str], command: str) -> Report:
    """One cluster after the other: start it, create the topics, do the works."""
    say = progress()
    bench = Bench(scale, directory, directory / "unused")
    rows = [CREATE, *chosen(rows_controller.works(), parts)]
    works = [row for row in rows if isinstance(row, Work)]
    described = machine.describe(directory)
    samples: list[Sample] = []
    async with running_zookeeper(directory / "zookeeper") as zookeeper:
        for running in (
            running_kafka(directory / "kafka", brokers=BROKERS, config=CLUSTER_CONFIG),
            running_ours(
                directory / "ours",
                zookeeper,
                flush="page_cache",
                brokers=BROKERS,
                config=CLUSTER_CONFIG,
            ),
            running_ours(
                directory / "fsync",
                zookeeper,
                flush="fsync",
                brokers=BROKERS,
                config=CLUSTER_CONFIG,
            ),
        ):
            async with running as (system, _):
                seconds = await rows_controller.create_topics(bench, system)
                say(f"{system.side}: {scale.controller_partitions:,} partitions in {seconds:.1f} s")
                samples.append(Sample(CREATE.name, system.side, {LED_SECONDS: seconds}))
                samples += await run_works(bench, [system], works, say)
    return Report(
        f"The controller of {scale.controller_partitions:,} partitions goes",
        [command],
        described,
        _settings(scale),
        rows,
        samples,
        failures=bench.failures,
    )


def _settings(scale: Scale) -> dict[str, str]:
    given = {**SETTINGS, **CLUSTER_CONFIG}
    return {
        "Kafka": f"{kafka_version()}, KRaft, broker and controller in one, {BROKERS} of them; "
        f"broker.session.timeout.ms={SESSION_TIMEOUT_MS}, controller.quorum.fetch.timeout.ms is "
        f"the default (2000); {' '.join(KAFKA_JAVA_OPTIONS)}",
        "ours": f"{BROKERS} brokers, one ZooKeeper (its CPU and memory count as ours), session "
        f"timeout {SESSION_TIMEOUT_MS} ms: a controller that is killed or paused is missed when "
        "it is over; flush: page_cache (Kafka's own promise), and flush: fsync",
        "both": ", ".join(f"{name}={value}" for name, value in given.items())
        + f"; {scale.controller_partitions:,} partitions, {rows_controller.PARTITIONS_PER_TOPIC} "
        "to a topic, three replicas, empty; all else is the default",
        "repeats": f"{scale.repeats}, one cluster after the other; the median is shown",
    }


if __name__ == "__main__":
    sys.exit(main("tests.bench.bench_controller", __doc__, measure))
