"""Our mirror and MirrorMaker 2 side by side, between the same two Apache Kafka brokers.

    python -m tests.bench.bench_mirror [--quick] [--rows start,near,far,tls,idle,discovery]
        [--repeats N] [--json FILE] [--add FILE]

MirrorMaker 2 as it comes and tuned, then ours, then ours between our own brokers. Prints Markdown.
`--add` takes the rows that this run does not measure from the JSON of an earlier one. So the table
can be made in pieces. Rows with TLS run only if a part begins with `tls`:
`--rows near` has none of them, `--rows tls-near-256k,tls-far-16k` two.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from local_cluster.compilation.finder import install
from tests.bench import machine, rows_mirror
from tests.bench.bench import failure_text, progress
from tests.bench.command import common_options, kafka_version, run, tools_version
from tests.bench.mirror_model import (
    BATCH_KINDS,
    FULL,
    MEASURED_ONCE,
    MIRROR_FIGURES,
    MIRRORS,
    OURS_ON_OURS,
    QUICK,
    SIDES,
    MirrorScale,
    sides_of,
)
from tests.bench.mirror_pairs import PLAIN_WAYS, ROUND_TRIP_MS, TLS_WAYS, Pair, kafka_pair, our_pair
from tests.bench.mirrors import MM2_JAVA_OPTIONS, MM2_SETTINGS, MM2_TUNING
from tests.bench.model import Figures, Row, Sample, Side
from tests.bench.report import Report
from tests.bench.rows_mirror_latency import latency, latency_row
from tests.bench.starting import running_zookeeper
from tests.bench.systems import KAFKA_JAVA_OPTIONS

TITLE: Final = "Our mirror and MirrorMaker 2"
Measured = Callable[[Pair, Side, MirrorScale], Awaitable[Figures]]


def works() -> list[tuple[Row, Measured]]:
    """The rows in the order of the table, and how each is measured; the idle one leaves most
    behind on the brokers and is the last."""
    found: list[tuple[Row, Measured]] = [(rows_mirror.START, rows_mirror.start)]
    for way in (*PLAIN_WAYS, *TLS_WAYS):
        for kind in BATCH_KINDS:
            found.append(
                (
                    rows_mirror.catch_up_row(way, kind),
                    partial(rows_mirror.catch_up, way=way, kind=kind),
                )
            )
        found.append((latency_row(way), partial(latency, way=way)))
    found.append((rows_mirror.DISCOVERY, rows_mirror.discovery))
    found.append((rows_mirror.IDLE, rows_mirror.idle))
    return found


def is_asked(name: str, parts: Sequence[str]) -> bool:
    """Whether a row is to be measured; with TLS only by a part that says so."""
    return not parts or any(
        part in name and (part.startswith("tls") or not name.startswith("tls")) for part in parts
    )


async def measure(
    directory: Path, scale: MirrorScale, parts: Sequence[str], command: str
) -> Report:
    """Start the brokers and measure row after row, one side after the other."""
    say = progress()
    chosen = [work for work in works() if is_asked(work[0].name, parts)]
    described = machine.describe(directory)
    samples: list[Sample] = []
    failures: list[str] = []
    async with AsyncExitStack() as stack:
        kafka = await stack.enter_async_context(kafka_pair(directory / "kafka"))
        pairs = dict.fromkeys(SIDES, kafka)
        if any(OURS_ON_OURS in sides_of(row) for row, _ in chosen):
            zookeeper = await stack.enter_async_context(running_zookeeper(directory / "zookeeper"))
            pairs[OURS_ON_OURS] = await stack.enter_async_context(
                our_pair(directory / "ours", zookeeper)
            )
        for number, (row, work) in enumerate(chosen, 1):
            repeats = 1 if row is rows_mirror.IDLE else scale.repeats
            for repeat in range(repeats):
                for side in sides_of(row):
                    if repeat and side in MEASURED_ONCE:
                        continue
                    try:
                        figures = await work(pairs[side], side, scale)
                    except Exception as error:  # noqa: BLE001 - the other rows of hours are kept
                        failures.append(failure_text(row.name, side, error))
                        say(f"{number}/{len(chosen)} {row.name} of {side}: {error!r}")
                        continue
                    samples.append(Sample(row.name, side, figures))
                    told = ", ".join(
                        f"{MIRROR_FIGURES[name].title} {value:,.{MIRROR_FIGURES[name].digits}f}"
                        for name, value in figures.items()
                    )
                    say(f"{number}/{len(chosen)} {row.name} #{repeat + 1} {side}: {told}")
                    shutil.rmtree(pairs[side].directory, ignore_errors=True)
    rows = [row for row, _ in works()]
    return Report(
        TITLE, [command], described, _settings(scale), rows, samples, MIRRORS, failures=failures
    )


def _settings(scale: MirrorScale) -> dict[str, str]:
    def listed(values: Any) -> str:
        return ", ".join(f"{name}={value}" for name, value in values.items())

    return {
        "brokers": f"Apache Kafka {kafka_version()}, one on each side, "
        f"{' '.join(KAFKA_JAVA_OPTIONS)}; ours with flush: page_cache",
        "MM2": f"{tools_version()}, dedicated, {listed(MM2_SETTINGS)}; all else is its default "
        f"(new topics are looked for every 600 s); {' '.join(MM2_JAVA_OPTIONS)}",
        "MM2 tuned": listed(MM2_TUNING),
        "ours": f"one worker, defaults, group offsets synced; {install().text}",
        "records": "JSON of about 450 bytes, lz4, 4 partitions",
        "far": f"{ROUND_TRIP_MS} ms round trip to the source by a delaying proxy",
        "TLS": "to source and target, P-256 certificate, version and cipher as both ends agree; "
        "rows that do not name it are in plain text",
        "rates": f"count after {scale.warm_up_share:.0%} of the topic or "
        f"{scale.warm_up_seconds:g} s, for at most {scale.measure_seconds_max:g} s",
        "latency": f"after {scale.latency_warm_up_seconds:g} s, over {scale.latency_seconds:g} s",
        "repeats": f"{scale.repeats}, the median is shown; 1 of {', '.join(MEASURED_ONCE)}, and of "
        "the row of idle partitions",
    }


def main() -> int:
    module = "tests.bench.bench_mirror"
    parser = common_options(module, __doc__)
    parser.add_argument("--add", type=Path, help="the JSON of an earlier run, for its rows")
    arguments = parser.parse_args()
    earlier = json.loads(arguments.add.read_text()) if arguments.add else None
    scale = QUICK if arguments.quick else FULL
    if arguments.repeats:
        scale = replace(scale, repeats=arguments.repeats)
    report = run(
        module,
        arguments,
        lambda directory, parts, command: measure(directory, scale, parts, command),
    )
    if report is None:
        return 1
    if earlier is not None:
        report = report.added_to(earlier)
    if arguments.json:
        arguments.json.write_text(json.dumps(report.json(), indent=1))
    print(report.markdown())
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
