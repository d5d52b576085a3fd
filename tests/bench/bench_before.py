"""Our broker beside itself at an earlier commit, driven by the raw client.

    .venv/bin/python -m tests.bench.bench_before [--revision COMMIT] [--rows PART,PART]

The default commit is the last one whose listeners had only plain text. So the table shows what
TLS, SASL, rights, limits and meters cost the clients that use none of them. Compiled modules came
later: the earlier broker is plain Python, and the present one stands there both ways.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.bench import machine, rows_raw
from tests.bench.bench import Bench, progress
from tests.bench.command import chosen, common_options, run
from tests.bench.model import BEFORE, FIGURES, FULL, OURS, OURS_PLAIN, QUICK, Scale, Work
from tests.bench.report import Report
from tests.bench.run import run_works, warm_up
from tests.bench.starting import running_ours, running_zookeeper
from tests.bench.systems import SETTINGS, System
from tests.bench.table import Comparison
from tests.support.cluster import PRESENT_CODE
from tests.support.older_code import OlderCode

PLAIN_TEXT_ONLY: Final = "06fe5e3a4d178def2d92cfb215a8ba81cb672fe8"
"""Rights can be decided, but no listener has TLS or SASL, and nothing asks for rights."""
PACKAGES: Final = ("local_cluster", "mirror_maker", "aggregator", "topology")
BEFORE_AND_OURS: Final = Comparison(
    figures=FIGURES,
    before={BEFORE: "before", OURS: "now"},
    behind={OURS_PLAIN: "now, plain Python"},
    rival=BEFORE,
    rival_title="before",
    ratio_digits=3,
)


def rows() -> list[Work]:
    """Return the rows of the raw client; what is wanted of them beside Kafka is left out."""
    return [replace(work, wanted={}) for work in rows_raw.works()]


async def measure(
    directory: Path, scale: Scale, older: OlderCode, parts: Sequence[str], command: str
) -> Report:
    """Start both brokers, warm them up, do the works in turn."""
    say = progress()
    code = directory / "code"
    code.mkdir()
    older.unpack(code)
    bench = Bench(scale, directory, directory / "unused")
    works = chosen(rows(), parts)
    async with AsyncExitStack() as stack:
        zookeeper = await stack.enter_async_context(running_zookeeper(directory / "zookeeper"))
        systems: list[System] = []
        for side in (BEFORE, OURS, OURS_PLAIN):
            running = running_ours(
                directory / side.replace(" ", "-"),
                zookeeper,
                flush="page_cache",
                plain=side != OURS,
                code=code if side == BEFORE else PRESENT_CODE,
            )
            system, _ = await stack.enter_async_context(running)
            systems.append(replace(system, side=side))
        for system in systems:
            await warm_up(bench, system, say)
        samples = await run_works(
            bench, systems, [work for work in works if isinstance(work, Work)], say
        )
    settings = {
        "brokers": f"page_cache, plain text; before: {older.revision[:8]}, in plain Python",
        "both": ", ".join(f"{name}={value}" for name, value in SETTINGS.items()),
        "sizes": f"{scale.repeats} repeats in turn; warm-up {scale.warm_up_seconds:g} s",
    }
    return Report(
        "Our broker before and now",
        [command],
        machine.describe(directory),
        settings,
        works,
        samples,
        BEFORE_AND_OURS,
    )


def main() -> int:
    """Measure, print the table, return the exit code."""
    parser = common_options("tests.bench.bench_before", __doc__)
    parser.add_argument("--revision", default=PLAIN_TEXT_ONLY, help="the earlier commit")
    arguments = parser.parse_args()
    older = OlderCode(arguments.revision, PACKAGES)
    if reason := older.why_not():
        print(f"the earlier broker is not here: {reason}", file=sys.stderr)
        return 1
    scale = QUICK if arguments.quick else FULL
    if arguments.repeats:
        scale = replace(scale, repeats=arguments.repeats)
    report = run(
        "tests.bench.bench_before",
        arguments,
        lambda directory, parts, command: measure(directory, scale, older, parts, command),
    )
    if report is None:
        return 1
    if arguments.json:
        arguments.json.write_text(json.dumps(report.json(), indent=1))
    print(report.markdown())
    return 0


if __name__ == "__main__":
    sys.exit(main())
