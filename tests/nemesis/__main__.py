"""Faults on real clusters under workloads, and a table of what became of them.

    python -m tests.nemesis                                    # every fault, every workload
    python -m tests.nemesis --faults kill-leader,cut-leader --workloads set-full,queue
    python -m tests.nemesis --mix --seconds 600 --seed 7       # ten minutes of faults at random
    python -m tests.nemesis --system kafka --faults kill-leader
    python -m tests.nemesis --table -o FILE                    # only print what is in the file

Each fault has a cluster's life of its own, which all workloads share. Outcomes go to FILE, cell by
cell, so that a table may be run in pieces. The exit code is 1 where anything but `ok` came out.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.nemesis.faults.fault import BOTH, KAFKA, OURS, Fault
from tests.nemesis.faults.table import FAULTS
from tests.nemesis.life import live
from tests.nemesis.outcome import (
    FAILED,
    NOT_RUN,
    OK,
    Outcome,
    from_json,
    measured_table,
    merged,
    table,
)
from tests.nemesis.plan import CALM_SECONDS, Step, mix
from tests.nemesis.workloads.table import WORKLOADS
from tests.support.kafka_from_maven import broker_jars

MIX: dict[str, str] = {"mix": "faults at random, some in pairs"}


def main() -> int:
    arguments = _parsed()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not arguments.table:
        if arguments.mix:
            _run_mix(arguments)
        else:
            _run_rows(arguments)
    outcomes = _load(arguments.output)
    for system in BOTH:
        if any(each.system == system for each in outcomes):
            titles = {name: fault.title for name, fault in FAULTS.items()} | MIX
            print(f"\n{system}\n\n" + table(outcomes, system, titles, list(WORKLOADS)))
            times = measured_table(outcomes, system)
            if times:
                print(f"\np50 / p99 / longest in ms (how many)\n\n{times}")
    bad = [each for each in outcomes if each.verdict not in (OK, NOT_RUN)]
    for each in bad:
        print(f"\n{each.system} {each.fault} {each.workload}: {each.verdict}")
        print("\n".join([*each.examples, each.reason]))
    return 1 if bad else 0


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.nemesis", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--system", choices=BOTH, default=OURS)
    parser.add_argument("--faults", default="", help="names; all where not given")
    parser.add_argument("--workloads", default="", help="names; all where not given")
    parser.add_argument("--mix", action="store_true", help="one life, faults at random")
    parser.add_argument("--seconds", type=float, help="how long a fault holds; the whole of a mix")
    parser.add_argument("--seed", type=int, help="of a mix, and of the workloads")
    parser.add_argument("-o", "--output", type=Path, help="JSON of outcomes, merged cell by cell")
    parser.add_argument("--table", action="store_true", help="print what is in the file")
    parser.add_argument("--directory", type=Path, help="where logs are kept; else they are deleted")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1 << 32)
    known = [name for name in FAULTS if FAULTS[name].is_mixed or not arguments.mix]
    arguments.faults = _names(parser, arguments.faults, list(FAULTS)) if arguments.faults else known
    arguments.workloads = _names(parser, arguments.workloads, list(WORKLOADS))
    if arguments.output is None:
        arguments.output = Path(tempfile.mkdtemp()) / "outcomes.json"
    return arguments


def _names(parser: argparse.ArgumentParser, given: str, known: Sequence[str]) -> list[str]:
    names = [name for name in given.split(",") if name] or list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"{', '.join(unknown)}: not among {', '.join(known)}")
    return names


def _run_rows(arguments: argparse.Namespace) -> None:
    for name in arguments.faults:
        fault = FAULTS[name]
        hold = fault.hold_seconds if arguments.seconds is None else arguments.seconds
        step = Step((name,), hold, CALM_SECONDS)
        _run(arguments, name, [step], [fault])


def _run_mix(arguments: argparse.Namespace) -> None:
    possible = [
        name for name in arguments.faults if _why_not(arguments.system, FAULTS[name]) is None
    ]
    alone = [name for name in possible if FAULTS[name].hold_seconds == 0.0]
    steps = mix(possible, arguments.seconds or 600.0, arguments.seed, alone=alone)
    print(f"seed {arguments.seed}: {len(steps)} steps")
    for number, step in enumerate(steps, 1):
        print(f"  {number}. {step}, then {step.calm_seconds:.1f} s of calm")
    _run(arguments, "mix", steps, [])


def _run(
    arguments: argparse.Namespace, label: str, steps: Sequence[Step], faults: Sequence[Fault]
) -> None:
    """One life; its outcomes are in the file afterwards."""
    reasons = [_why_not(arguments.system, fault) for fault in faults]
    reason = next((each for each in reasons if each is not None), None)
    if reason is not None:
        outcomes = _same(arguments, label, NOT_RUN, reason)
        _say(f"{label}: not run: {reason}")
    else:
        _say(f"{arguments.system} {label}: {', '.join(arguments.workloads)}")
        with contextlib.ExitStack() as stack:
            if arguments.directory is None:
                home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            else:
                home = arguments.directory / f"{arguments.system}-{label}-{time.time_ns()}"
            living = live(
                arguments.system, label, steps, arguments.workloads, home, arguments.seed, _say
            )
            try:
                outcomes = asyncio.run(living)
            except Exception:  # noqa: BLE001 - the next row may do better
                outcomes = _same(arguments, label, FAILED, traceback.format_exc()[-4000:])
    for each in outcomes:
        _say(
            f"  {each.workload}: {each.cell if each.reason == '' else each.verdict} {each.checked}"
        )
    arguments.output.write_text(
        json.dumps([e.json() for e in merged(_load(arguments.output), outcomes)], indent=1)
    )


def _same(arguments: argparse.Namespace, label: str, verdict: str, reason: str) -> list[Outcome]:
    """The same outcome for all workloads."""
    return [
        Outcome(
            system=arguments.system,
            fault=label,
            workload=workload,
            verdict=verdict,
            reason=reason,
            seed=arguments.seed,
        )
        for workload in arguments.workloads
    ]


def _why_not(system: str, fault: Fault) -> str | None:
    if system not in fault.systems:
        return f"does not apply to {system}"
    if system == KAFKA:
        try:
            broker_jars()
        except pytest.skip.Exception as reason:
            return str(reason)
    return fault.why_not()


def _load(path: Path) -> list[Outcome]:
    return [from_json(each) for each in json.loads(path.read_text())] if path.exists() else []


def _say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
