"""Every bench in one sitting, and the page with its tables and plots.

    .venv/bin/python -m tests.bench.bench_all [--only broker,cluster] [--quick] [--output DIR]

Writes results.md, a picture per bench and ratios.json to docs/benchmarks, bench after bench, so
that a run that is stopped keeps what it has. The ratios that lay there are drawn as "before".
"""

from __future__ import annotations

import argparse
import datetime
import json
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.bench import (
    bench_broker,
    bench_cluster,
    bench_controller,
    bench_mirror,
    mirror_model,
    model,
    page,
)
from tests.bench.command import run
from tests.bench.report import Report

OUTPUT: Final = Path(__file__).parents[2] / "docs/benchmarks"
PLAIN_MIRROR_ROWS: Final = ("start", "near", "far", "discovery", "idle")
TLS_MIRROR_ROWS: Final = ("tls-near",)
"""Far and by TLS at once is measured by `--rows tls-far` alone: distance and TLS are rows each."""
Run = Callable[[Path, Sequence[str], str], Awaitable[Report]]
"""(directory for everything, parts of rows' names, the command) -> what was found"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much the benches do."""

    scale: model.Scale
    mirror: mirror_model.MirrorScale


def benches(sizes: Sizes) -> Mapping[str, Run]:
    """The benches by name, in the order of the page."""
    return {
        "broker": lambda *told: bench_broker.measure(told[0], sizes.scale, *told[1:]),
        "cluster": lambda *told: bench_cluster.measure(told[0], sizes.scale, *told[1:]),
        "controller": lambda *told: bench_controller.measure(told[0], sizes.scale, *told[1:]),
        "mirror": lambda *told: _mirrored(sizes, PLAIN_MIRROR_ROWS, *told),
        "mirror-tls": lambda *told: _mirrored_over_tls(sizes, *told),
    }


def _mirrored(
    sizes: Sizes, rows: Sequence[str], directory: Path, parts: Sequence[str], command: str
) -> Awaitable[Report]:
    return bench_mirror.measure(directory, sizes.mirror, parts or rows, command)


async def _mirrored_over_tls(
    sizes: Sizes, directory: Path, parts: Sequence[str], command: str
) -> Report:
    report = await _mirrored(sizes, TLS_MIRROR_ROWS, directory, parts, command)
    return replace(report, title=f"{report.title}, over TLS")


def main() -> int:
    """Measure, write the page after each bench, return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.bench_all", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--only", default="", help="names of benches, parted by commas")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: tries the harness")
    parser.add_argument("--rows", default="", help="only rows whose names have one of these parts")
    parser.add_argument("--repeats", type=int, help="of each row; the median counts")
    parser.add_argument("--directory", type=Path, help="where the logs go: a disk, not memory")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where the page goes")
    arguments = parser.parse_args()
    sizes = _sizes(arguments.quick, arguments.repeats)
    known = benches(sizes)
    names = [name for name in arguments.only.split(",") if name] or list(known)
    unknown = sorted(set(names) - set(known))
    if unknown:
        parser.error(f"no bench is called {unknown[0]!r}; there are {', '.join(known)}")
    is_whole = True
    for name in names:
        report = run("tests.bench.bench_all", arguments, known[name])
        if report is None:
            return 1
        write(arguments.output, name, report)
        print(report.markdown(), flush=True)
        is_whole = is_whole and not report.failures
    return 0 if is_whole else 1


def _sizes(quick: bool, repeats: int | None) -> Sizes:
    scale = replace(model.QUICK if quick else model.FULL, with_plain=True)
    mirror = mirror_model.QUICK if quick else mirror_model.FULL
    if repeats:
        return Sizes(replace(scale, repeats=repeats), replace(mirror, repeats=repeats))
    return Sizes(scale, mirror)


def write(output: Path, name: str, report: Report) -> None:
    """Put a bench's result beside the others' and write the page anew."""
    output.mkdir(parents=True, exist_ok=True)
    stored = output / "results.json"
    before = json.loads(stored.read_text()) if stored.exists() else {}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    results = page.with_result(before, name, report, today)
    stored.write_text(json.dumps(results, indent=1) + "\n")
    (output / page.picture_name(name)).write_text(page.picture(results[name], report))
    (output / "results.md").write_text(page.markdown(results, shlex.join(sys.argv[1:])))


if __name__ == "__main__":
    sys.exit(main())
