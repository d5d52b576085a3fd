"""Judge Heliograph's mirrors from outside, under faults.

    python -m tests.referee                                   # every mode, ten minutes of load
    python -m tests.referee --seconds 60 --modes merge --states compacted,transactional --seed 7
    python -m tests.referee --system kafka-source
    python -m tests.referee --plan --seed 7                   # only print what would be played

Each mode is the life of a deployment of its own, with all source states in it. The seconds of load
are divided among them; coming up, catching up and judging come on top. The exit code is 1 with any
finding.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from tests.referee.checks.finding import Judgement
from tests.referee.kafka import KafkaUnavailable, kafka_jars
from tests.referee.life import Life
from tests.referee.modes import Mode, State
from tests.referee.plan import Plan, System, make_plan
from tests.referee.report import as_json, figures_table, findings_text

Name = TypeVar("Name", Mode, State)


def main() -> int:
    """Play and judge what the command line says; the exit code."""
    arguments = _parsed()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plans = [
        make_plan(
            mode,
            arguments.states,
            arguments.system,
            arguments.seed,
            arguments.seconds / len(arguments.modes),
            records_per_second=arguments.rate,
        )
        for mode in arguments.modes
    ]
    if arguments.plan:
        for plan in plans:
            _print_plan(plan)
        return 0
    if arguments.system is not System.OWN:
        try:
            kafka_jars()
        except KafkaUnavailable as error:
            print(f"Apache Kafka cannot be had: {error}", file=sys.stderr)
            return 2
    return _run(plans, arguments)


def _run(plans: Sequence[Plan], arguments: argparse.Namespace) -> int:
    print(f"seed {arguments.seed}, system {arguments.system}", flush=True)
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="referee-"))
    lives: dict[str, Judgement] = {}
    total = Judgement()
    for plan in plans:
        say = _sayer(str(plan.mode))
        place = directory / str(plan.mode)
        place.mkdir(parents=True)
        limits = arguments.offsets_max // len(plans), arguments.catch_up_seconds
        life = Life(plan, place, *limits, say)
        judgement = life.live()
        say(f"{len(judgement.findings)} findings")
        lives[str(plan.mode)] = judgement
        total.add(judgement)
        if not judgement.findings and arguments.directory is None:
            life.delete_files()
        if arguments.output is not None:
            shown = {"seed": arguments.seed, "system": str(arguments.system)}
            shown["seconds"] = arguments.seconds
            arguments.output.write_text(json.dumps(as_json(shown, lives, total), indent=2))
    print(f"\nseed {arguments.seed}, system {arguments.system}\n\n{figures_table(total.figures)}")
    print(f"\n{findings_text(total.findings)}")
    if total.findings:
        print(f"\nlogs are in {directory}")
    return 1 if total.findings else 0


def _print_plan(plan: Plan) -> None:
    print(f"{plan.mode}: {plan.prelude_seconds:.0f} s of load, then {plan.load_seconds:.0f} s")
    for cluster in plan.clusters:
        print(f"  cluster {cluster}")
    for topic in plan.topics:
        print(f"  topic {topic}")
    print(f"  workers more for {plan.extra_workers}")
    for at, what in sorted([*plan.faults, *plan.operations], key=lambda each: each[0]):
        print(f"  {at:6.1f} s  {what}")


def _sayer(mode: str):  # type: ignore[no-untyped-def]
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"[{mode} {time.monotonic() - started:6.1f} s] {text}", flush=True)

    return say


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.referee",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="of load, all modes together")
    parser.add_argument("--seed", type=int, help="what to play; default: at random, and printed")
    parser.add_argument("--system", type=System, choices=list(System), default=System.OWN)
    parser.add_argument("--modes", default="", help=f"of {', '.join(Mode)}; default: all")
    parser.add_argument("--states", default="", help=f"of {', '.join(State)}; default: all")
    parser.add_argument("--rate", type=float, default=150.0, help="records/s of each cluster")
    parser.add_argument(
        "--offsets-max", type=int, default=150_000, help="how many offsets are translated at most"
    )
    parser.add_argument(
        "--catch-up-seconds", type=float, default=300.0, help="how long mirrors may catch up"
    )
    parser.add_argument("--directory", type=Path, help="where files are kept; else a temporary one")
    parser.add_argument("-o", "--output", type=Path, help="JSON of figures and findings")
    parser.add_argument("--plan", action="store_true", help="only print what would be played")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1 << 32)
    arguments.modes = _named(parser, arguments.modes, Mode)
    arguments.states = _named(parser, arguments.states, State)
    return arguments


def _named(parser: argparse.ArgumentParser, given: str, kind: type[Name]) -> list[Name]:
    try:
        return [kind(name) for name in given.split(",") if name] or list(kind)
    except ValueError as error:
        parser.error(f"{error}; known are {', '.join(kind)}")


if __name__ == "__main__":
    sys.exit(main())
