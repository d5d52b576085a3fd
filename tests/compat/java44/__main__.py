"""Play every scenario against Kafka 4.4 and ours, and print the table of differences.

    python -m tests.compat.java44 [--quick] [--only PATTERN]

Exits with 1 if a difference is not expected, or an expected one no longer occurs.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.compat.java44 import comparing
from tests.compat.java44.running import both_brokers, play
from tests.support.zookeeper_process import ZooKeeperProcess


async def compare(which: str, pattern: str, directory: Path) -> int:
    """Play on both, and print. Returns the exit code."""
    zookeeper = ZooKeeperProcess(directory / "zookeeper")
    try:
        address = f"127.0.0.1:{zookeeper.server.port}"
        async with both_brokers(address, directory) as (kafka, ours):
            theirs = await play(kafka, which, pattern)
            our = await play(ours, which, pattern)
    finally:
        zookeeper.kill()
    found = comparing.differences(theirs, our)
    unexpected = [each for each in found if each.reason is None]
    outdated = comparing.outdated(found, theirs)
    print(comparing.table(found))
    for path in outdated:
        print(f"{path}\n    is expected to differ, and does not")
    print(f"{len(theirs)} scenarios, {len(found)} differences, {len(unexpected)} unexpected")
    return 1 if unexpected or outdated else 0


def main() -> int:
    """Read the arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.compat.java44")
    parser.add_argument("--quick", action="store_true", help="without the scenarios that wait long")
    parser.add_argument("--only", default=".*", metavar="PATTERN", help="names that match it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="java44-") as directory:
        which = "quick" if arguments.quick else "all"
        return asyncio.run(compare(which, arguments.only, Path(directory)))


if __name__ == "__main__":
    sys.exit(main())
