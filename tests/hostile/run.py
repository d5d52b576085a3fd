"""`make hostile`: hostile inputs for every target, a worker per core; prints a table."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import resource
import time
import warnings
from pathlib import Path
from typing import Final

from tests.hostile.targets import TARGETS
from tests.hostile.trial import Tally, try_inputs

INPUTS_PER_JOB: Final = 1_000
MEMORY_BYTES_MAX: Final = 4 << 30
"""Address space of a worker; an input that needs more is a finding."""

Job = tuple[int, int, range]
"""Number of the target, seed, numbers of the inputs."""


def main() -> int:
    """Return 1 if there was a finding."""
    parser = argparse.ArgumentParser(prog="make hostile", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs over all targets")
    parser.add_argument("--seed", type=int, default=1, help="another seed gives other inputs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--findings", type=Path, default=Path("build/hostile"), help="directory")
    arguments = parser.parse_args()
    begin = time.monotonic()
    tallies = [Tally() for _ in TARGETS]
    jobs = _jobs(arguments.inputs, arguments.seed)
    with multiprocessing.get_context("spawn").Pool(arguments.jobs, _prepare_worker) as pool:
        for number, tally in pool.imap_unordered(_work, jobs):
            tallies[number].add(tally)
    print(f"{'target':<20} {'inputs':>9} {'accepted':>9} {'refused':>9} {'findings':>9}  slowest")
    for target, tally in zip(TARGETS, tallies, strict=True):
        print(
            f"{target.name:<20} {tally.inputs:>9} {tally.accepted:>9} {tally.refused:>9} "
            f"{tally.findings_count:>9}  {tally.slowest_ms:.1f} ms (input {tally.slowest_index})"
        )
        for finding in tally.findings:
            arguments.findings.mkdir(parents=True, exist_ok=True)
            path = arguments.findings / f"{finding.target}-{finding.seed}-{finding.number}"
            path.write_bytes(finding.content)
            print(f"    {path}: {finding.error}")
    print(f"seed {arguments.seed}, {time.monotonic() - begin:.0f} s, {arguments.jobs} workers")
    return int(any(tally.findings_count for tally in tallies))


def _jobs(inputs: int, seed: int) -> list[Job]:
    shares = sum(target.share for target in TARGETS)
    return [
        (number, seed, range(first, min(first + INPUTS_PER_JOB, count)))
        for number, target in enumerate(TARGETS)
        for count in [max(1, inputs * target.share // shares)]
        for first in range(0, count, INPUTS_PER_JOB)
    ]


def _prepare_worker() -> None:
    """Limit the memory, and print no warnings: YAML has one for each repeated anchor, recovery one
    for each torn tail."""
    logging.getLogger().addHandler(logging.NullHandler())
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))


def _work(job: Job) -> tuple[int, Tally]:
    number, seed, indexes = job
    return number, try_inputs(TARGETS[number], seed, indexes)
