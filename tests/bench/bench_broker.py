"""Our broker and Apache Kafka side by side, driven by the same outside clients.

    .venv/bin/python -m tests.bench.bench_broker [--quick] [--rows PART,PART] [--json FILE]

Prints Markdown with every figure of both, their ratio, what is wanted and whether it is reached.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from local_cluster.compilation.finder import install
from tests.bench import (
    java_tools,
    machine,
    rows_curves,
    rows_disk,
    rows_java,
    rows_raw,
    rows_tls,
    rows_transactions,
)
from tests.bench.bench import Bench, progress
from tests.bench.command import chosen, kafka_version, main
from tests.bench.model import Row, Sample, Scale, Side, Work
from tests.bench.report import Report
from tests.bench.rows_process import IDLE, START, start_and_idle
from tests.bench.run import run_works, warm_up
from tests.bench.starting import (
    FLUSH_EACH_MESSAGE,
    ExtraListener,
    direct_listener,
    running_kafka,
    running_ours,
    running_zookeeper,
)
from tests.bench.systems import KAFKA_JAVA_OPTIONS, SETTINGS, System
from tests.support.keystore import KeyStore, make_keystore


def rows(scale: Scale) -> list[Row]:
    """Return every row, in the order of the table."""
    return [
        START,
        IDLE,
        *rows_java.works(),
        *rows_raw.works(),
        *rows_tls.works(),
        *rows_transactions.works(),
        *rows_disk.works(),
        *rows_curves.works(scale),
    ]


async def measure(
    directory: Path,
    scale: Scale,
    parts: Sequence[str],
    command: str,
    sides: Mapping[str, Collection[Side]] | None = None,
) -> Report:
    """Start the systems, warm them up, do the works in turn.

    `sides` names the sides of each row, where not all of them are wanted.
    """
    say = progress()
    keystore = await asyncio.to_thread(make_keystore, directory / "tls")
    payload = java_tools.write_payload(directory / "payload.txt")
    bench = Bench(scale, directory, payload, keystore.client_config)
    chosen_rows = chosen(rows(scale), parts)
    described = machine.describe(directory)
    samples: list[Sample] = []
    warmed: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        zookeeper = await stack.enter_async_context(running_zookeeper(directory / "zookeeper"))
        if START in chosen_rows or IDLE in chosen_rows:
            samples += await start_and_idle(bench, zookeeper, say)
        works = [row for row in chosen_rows if isinstance(row, Work)]
        if works:
            systems: list[System] = []
            runnings = [
                running_kafka(
                    directory / "kafka", config=keystore.broker_config, extra=[_tls(keystore)]
                ),
                running_kafka(directory / "kafka-fsync", flush="fsync"),
                running_ours(
                    directory / "ours", zookeeper, flush="page_cache", extra=[_tls(keystore)]
                ),
                running_ours(directory / "ours-fsync", zookeeper, flush="fsync"),
            ]
            if scale.with_plain:
                home = directory / "ours-plain"
                runnings.append(
                    running_ours(
                        home, zookeeper, flush="page_cache", plain=True, extra=[_tls(keystore)]
                    )
                )
            for running in runnings:
                system, _ = await stack.enter_async_context(running)
                systems.append(system)
            for system in systems:
                warmed[system.side] = await warm_up(bench, system, say)
            samples += await run_works(bench, systems, works, say, sides)
    return Report(
        "Our broker and Apache Kafka",
        [command],
        described,
        _settings(scale, warmed),
        chosen_rows,
        samples,
        failures=bench.failures,
    )


def _tls(keystore: KeyStore) -> ExtraListener:
    return direct_listener("TLS", keystore.listener_tls)


def _settings(scale: Scale, warmed: dict[str, int]) -> dict[str, str]:
    requests = ", ".join(f"{side} {count:,}" for side, count in warmed.items())
    return {
        "Kafka": f"{kafka_version()}, KRaft, broker and controller in one; "
        f"{' '.join(KAFKA_JAVA_OPTIONS)}; once as it comes, once with "
        + ", ".join(f"{name}={value}" for name, value in FLUSH_EACH_MESSAGE.items()),
        "ours": "flush: page_cache (Kafka's own promise), and flush: fsync (group commit); "
        f"the CPU of ZooKeeper counts as ours; {install().text}",
        "both": ", ".join(f"{name}={value}" for name, value in SETTINGS.items())
        + "; one replica, acks=all; all else is the default",
        "warm-up": f"{scale.warm_up_seconds:g} s of produce and fetch each; requests: {requests}",
        "repeats": f"{scale.repeats}, in turn; the median is shown (curves and small produces: 1)",
    }


if __name__ == "__main__":
    sys.exit(main("tests.bench.bench_broker", __doc__, measure))
