"""`heliograph demo`: runs the steps, stops the deployment, and returns the exit code.

The deployment is stopped at the end in every case, unless it is to be kept. The exit code says
whether every check passed.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console

from local_cluster.client.auth.security import SecurityError
from local_cluster.wire.errors import KafkaError
from spark_global.session import LOCAL_MASTER, SparkStartError
from spark_global.sql import explain_error
from topology.demo.boards import GROUP, BoardsError
from topology.demo.feed import TOPIC, FeedError
from topology.demo.flights import FlightsMissingError
from topology.demo.mirrored import MirrorStalledError
from topology.demo.prepare import DemoError, client_file, forget, prepare
from topology.demo.report import write_page, write_parquet
from topology.demo.steps import BOARDS_AIRPORT, BeforeAudit, DemoSteps
from topology.demo.stream import StreamStalledError
from topology.deployment.zookeeper import ZooKeeperUnavailable
from topology.operate.down import down
from topology.problems import DeployError, InvalidTopology
from topology.supervisor.control_client import SupervisorRefused, SupervisorUnreachable

EXIT_GOOD: Final = 0
EXIT_BAD: Final = 1
EXIT_USAGE: Final = 2
_EXPECTED: Final = (
    BoardsError,
    DemoError,
    DeployError,
    FeedError,
    FlightsMissingError,
    KafkaError,
    MirrorStalledError,
    OSError,
    SecurityError,
    SparkStartError,
    StreamStalledError,
    SupervisorRefused,
    SupervisorUnreachable,
)


def run_demo(
    *,
    out: Path,
    keep: bool,
    output: str,
    state_dir: Path | None,
    topology: Path,
    with_own_secrets: bool = False,
    master: str = LOCAL_MASTER,
    flights_max: int | None = None,
    before_audit: BeforeAudit | None = None,
) -> int:
    """Run the whole demo; return its exit code.

    `output` is "human" or "json". `with_own_secrets` generates certificates and passwords. Spark
    runs on `master`. For tests, `flights_max` limits the flights of each airport, and
    `before_audit` is called when everything is mirrored.
    """
    is_json = output == "json"
    console = Console(stderr=is_json, highlight=False)
    try:
        deployment, state = prepare(topology, state_dir, with_own_secrets=with_own_secrets)
    except InvalidTopology as error:
        for line in error.lines():
            console.print(line, markup=False, soft_wrap=True)
        return EXIT_USAGE
    except (DemoError, DeployError, ZooKeeperUnavailable, OSError) as error:
        console.print(f"demo: {error}", style="red", markup=False, soft_wrap=True)
        return EXIT_USAGE
    steps = DemoSteps(
        deployment,
        state,
        console,
        master=master,
        flights_max=flights_max,
        before_audit=before_audit,
    )
    with _terminated_as_interrupt():
        _run(steps, out, keep=keep)
    if is_json:
        sys.stdout.write(json.dumps(steps.report.as_json(), indent=2) + "\n")
    return EXIT_GOOD if steps.report.is_good else EXIT_BAD


def _run(steps: DemoSteps, out: Path, *, keep: bool) -> None:
    started_s = time.monotonic()
    try:
        steps.run()
        with steps.step("write the tables"):
            write_parquet(steps.report, out)
            write_page(steps.report, steps.page_view(), out)
    except _EXPECTED as error:
        _fail(steps, explain_error(error), getattr(error, "details", ()))
    except KeyboardInterrupt:
        _fail(steps, "interrupted")
    finally:
        is_kept = _stop(steps, keep=keep)
        steps.report.seconds["in all"] = time.monotonic() - started_s
    _print_end(steps, out, is_kept=is_kept)


def _stop(steps: DemoSteps, *, keep: bool) -> bool:
    """Stop the deployment, or keep it; return whether it is kept."""
    state, report = steps.state, steps.report
    if keep and state.is_locked():
        return True
    started_s = time.monotonic()
    try:
        down(state, purge=report.is_good)
    except DeployError as error:
        _fail(steps, str(error), error.details)
    else:
        if report.is_good:
            forget(state)
    report.seconds["stop"] = time.monotonic() - started_s
    return False


def _print_end(steps: DemoSteps, out: Path, *, is_kept: bool) -> None:
    report, state = steps.report, steps.state
    say = steps.console.print
    if report.files:
        say(f"tables: {out}", markup=False, soft_wrap=True)
    if report.page is not None:
        say(f"charts: {report.page}", markup=False, soft_wrap=True)
    if not report.is_good and report.failure is None:
        say("the checks did not pass", style="bold red")
    if is_kept:
        name = steps.aggregate.name
        client = f"-b {steps.aggregate.bootstrap}"
        if steps.aggregate.security.uses_sasl:
            client = f"-F {client_file(state, name, GROUP)}"
        at = f" --state-dir {state.path}"
        for line in (
            f"{steps.deployment.name} keeps running; connect to {name} with any Kafka client:",
            f"  kcat {client} -C -t {BOARDS_AIRPORT}.{TOPIC} -o beginning -c 3",
            f"  heliograph sql{at} "
            f"'SELECT datacenter, count(*) FROM global_{TOPIC} GROUP BY datacenter'",
            f"  heliograph down{at} --purge",
        ):
            say(line, markup=False, soft_wrap=True)
    elif not report.is_good:
        say(f"logs: {state.logs_dir}", markup=False, soft_wrap=True)
    say(f"{report.seconds['in all']:.1f} s in all", markup=False)


def _fail(steps: DemoSteps, why: str, details: tuple[str, ...] = ()) -> None:
    steps.report.failure = f"{steps.step_name}: {why}"
    steps.console.print(
        f"failed to {steps.report.failure}", style="bold red", markup=False, soft_wrap=True
    )
    for line in details:
        steps.console.print(line, markup=False, soft_wrap=True)


@contextlib.contextmanager
def _terminated_as_interrupt() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that the deployment is stopped."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
