"""The guard of the broker's speed: ten ratios to Apache Kafka beside the committed ones.

    .venv/bin/python -m tests.bench.bench_quick [--commit] [--directory DIR]

Takes less than three minutes. Exits with 1 if a ratio is worse than the committed one by more than
a third. `--commit` writes the measured ratios to docs/benchmarks/quick.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.bench import bench_broker, quick
from tests.bench.command import run

COMMITTED: Final = Path(__file__).parents[2] / "docs/benchmarks/quick.json"


async def measure(directory: Path, parts: Sequence[str], command: str) -> list[quick.Judged]:
    """Measure the rows of the ratios; `parts` is not used."""
    sides = quick.sides_of_rows()
    report = await bench_broker.measure(directory, quick.SCALE, list(sides), command, sides)
    committed = json.loads(COMMITTED.read_text()) if COMMITTED.exists() else {}
    return list(quick.judge(report.samples, committed))


def main() -> int:
    """Measure, print the table, return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.bench_quick", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--commit", action="store_true", help="write the ratios to the file")
    parser.add_argument("--directory", type=Path, help="where the logs go: a disk, not memory")
    arguments = parser.parse_args(namespace=argparse.Namespace(rows=""))
    judged = run("tests.bench.bench_quick", arguments, measure)
    if judged is None:
        return 1
    print(quick.markdown(judged))
    if arguments.commit:
        measured = {each.ratio.name: round(each.measured, 3) for each in judged}
        COMMITTED.write_text(json.dumps(measured, indent=1) + "\n")
        return 0
    return 1 if any(each.is_worse for each in judged) else 0


if __name__ == "__main__":
    sys.exit(main())
