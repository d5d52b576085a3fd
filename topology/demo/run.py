"""The main job, end to end: deploy, feed, mirror, move a group, answer, audit, stop.

Mirrors run from the start, so mirroring overlaps with production, and Spark starts while flights
are fed. Whatever happens, the deployment is stopped at the end (unless it is to be kept), and the
exit code says whether every check held.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from local_cluster.wire.errors import KafkaError
from spark_global.session import SHORT_JOB, SparkStartError, start_session, stop_session
from spark_global.sql import explain_error
from spark_global.views import Aggregate
from topology.demo.answers import answer, audit, warm_up, warm_up_reader
from topology.demo.boards import BoardsError, check_boards
from topology.demo.feed import TOPIC, FeedError, create_topic, feed_airports
from topology.demo.flights import (
    AIRPORTS,
    AirportFlights,
    FlightsMissingError,
    flights_of,
    read_flights,
)
from topology.demo.mirrored import MirroredWatch, MirrorStalledError
from topology.demo.prepare import DemoError, demo_links, forget, prepare
from topology.demo.report import Report, print_answers, print_audit, print_boards, write_parquet
from topology.deployment.aggregate_view import aggregate_view
from topology.deployment.deployment import Deployment
from topology.deployment.state_dir import StateDir
from topology.deployment.zookeeper import ZooKeeperUnavailable
from topology.operate.down import down
from topology.operate.up import up
from topology.problems import DeployError, InvalidTopology
from topology.status.observe import reported_status

EXIT_GOOD: Final = 0
EXIT_BAD: Final = 1
EXIT_USAGE: Final = 2

BOARDS_AIRPORT: Final = "jfk"

BeforeAudit = Callable[[Deployment, StateDir], None]


def run_demo(
    *,
    out: Path,
    keep: bool,
    output: str,
    state_dir: Path | None,
    topology: Path,
    flights_max: int | None = None,
    before_audit: BeforeAudit | None = None,
) -> int:
    """Run the whole demo; its exit code.

    `output` is "human" or "json". `flights_max` takes only so many flights of each airport and
    `before_audit` is called when everything is mirrored: both are for tests.
    """
    is_json = output == "json"
    console = Console(stderr=is_json, highlight=False)
    try:
        deployment, state = prepare(topology, state_dir)
    except InvalidTopology as error:
        for line in error.lines():
            console.print(line, markup=False, soft_wrap=True)
        return EXIT_USAGE
    except (DemoError, DeployError, ZooKeeperUnavailable, OSError) as error:
        console.print(f"demo: {error}", style="red", markup=False, soft_wrap=True)
        return EXIT_USAGE
    demo = _Demo(deployment, state, console, flights_max, before_audit)
    with _terminated_as_interrupt():
        code = demo.run(out, keep=keep)
    if is_json:
        sys.stdout.write(json.dumps(demo.report.as_json(), indent=2) + "\n")
    return code


class _Demo:
    """One run, and what it knows so far."""

    def __init__(
        self,
        deployment: Deployment,
        state: StateDir,
        console: Console,
        flights_max: int | None,
        before_audit: BeforeAudit | None,
    ) -> None:
        self._deployment = deployment
        self._state = state
        self._console = console
        self._flights_max = flights_max
        self._before_audit = before_audit
        self._links = demo_links(deployment)
        self._aggregate: Aggregate = aggregate_view(deployment, self._links[BOARDS_AIRPORT].target)
        self.report = Report(deployment=deployment.name)
        self._step_name = "start"

    def run(self, out: Path, *, keep: bool) -> int:
        started_s = time.monotonic()
        try:
            self._run_steps()
            with self._step("write the tables"):
                write_parquet(self.report, out)
        except _EXPECTED as error:
            self._fail(explain_error(error), getattr(error, "details", ()))
        except KeyboardInterrupt:
            self._fail("interrupted")
        finally:
            kept = self._finish(keep)
            self.report.seconds["in all"] = time.monotonic() - started_s
        self._say_how_it_went(out, kept=kept)
        return EXIT_GOOD if self.report.is_good else EXIT_BAD

    def _run_steps(self) -> None:
        # One thread, so that Spark's start is never in the way of more than one core.
        with ThreadPoolExecutor(1, "spark-start") as pool:
            starting = pool.submit(self._start_spark)
            try:
                with self._step("read the flights"):
                    flights = self._read_flights()
                with self._step("deploy"):
                    up(self._deployment, self._state)
                warming = pool.submit(lambda: warm_up_reader(starting.result(), self._aggregate))
                self._feed_and_mirror(flights)
                with self._step("move the boards"):
                    self._move_boards()
                if self._before_audit is not None:
                    self._before_audit(self._deployment, self._state)
                with self._step("wait for Spark"):
                    warming.result()
                self._ask_spark(starting.result())
            except PySparkException as error:
                # Only a living JVM can say what was wrong.
                raise DemoError(explain_error(error)) from error
            finally:
                _stop_spark(starting)

    def _read_flights(self) -> dict[str, AirportFlights]:
        table = read_flights()
        flights = {name: flights_of(table, name) for name in AIRPORTS}
        if self._flights_max is not None:
            flights = {name: rows.first(self._flights_max) for name, rows in flights.items()}
        return flights

    def _start_spark(self) -> SparkSession:
        session = start_session(log_file=self._state.log_file("spark"), settings=SHORT_JOB)
        warm_up(session)
        return session

    def _feed_and_mirror(self, flights: Mapping[str, AirportFlights]) -> None:
        bootstraps = {name: self._bootstrap(name) for name in AIRPORTS}
        for bootstrap in bootstraps.values():
            create_topic(bootstrap)
        mirrored_topics = {f"{self._links[name].source}.{TOPIC}": name for name in AIRPORTS}
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
        ) as progress:
            produced = {
                name: progress.add_task(f"{name}: produced", total=len(rows))
                for name, rows in flights.items()
            }
            mirrored = {
                name: progress.add_task(
                    f"{name}: mirrored to {self._aggregate.name}", total=len(rows)
                )
                for name, rows in flights.items()
            }
            with MirroredWatch(
                self._aggregate.bootstrap,
                mirrored_topics,
                lambda name, count: progress.update(mirrored[name], completed=count),
            ) as watch:
                with self._step("feed"):
                    feed_airports(
                        flights,
                        bootstraps,
                        lambda name, count: progress.update(produced[name], completed=count),
                    )
                self.report.produced = {name: len(rows) for name, rows in flights.items()}
                with self._step("mirror the rest"):
                    watch.wait(self.report.produced, self._link_status)

    def _move_boards(self) -> None:
        self.report.boards = check_boards(
            source_bootstrap=self._bootstrap(BOARDS_AIRPORT),
            aggregate_bootstrap=self._aggregate.bootstrap,
            api=self._aggregator_url(),
            link=self._links[BOARDS_AIRPORT].name,
            topic=TOPIC,
        )
        print_boards(self._console, self.report.boards, BOARDS_AIRPORT, self._aggregate.name)

    def _ask_spark(self, session: SparkSession) -> None:
        datacenters = [link.datacenter for link in self._aggregate.links]
        with self._step("answer"):
            self.report.answers = answer(session, self._aggregate, TOPIC, datacenters)
        print_answers(self._console, self.report.answers)
        with self._step("audit"):
            self.report.audit = audit(session, self._aggregate, TOPIC)
        print_audit(self._console, self.report.audit)

    def _finish(self, keep: bool) -> bool:
        """Stop the deployment, or keep it; whether it is kept."""
        if keep and self._state.is_locked():
            return True
        started_s = time.monotonic()
        try:
            down(self._state, purge=self.report.is_good)
        except DeployError as error:
            self._fail(str(error), error.details)
        else:
            if self.report.is_good:
                forget(self._state)
        self.report.seconds["stop"] = time.monotonic() - started_s
        return False

    def _say_how_it_went(self, out: Path, *, kept: bool) -> None:
        say = self._console.print
        if self.report.files:
            say(f"tables: {out}", markup=False, soft_wrap=True)
        if not self.report.is_good and self.report.failure is None:
            say("the checks did not hold", style="bold red")
        if kept:
            name, there = self._aggregate.name, self._aggregate.bootstrap
            at = f" --state-dir {self._state.path}"
            for line in (
                f"{self._deployment.name} goes on running; talk to {name} with any Kafka client:",
                f"  kcat -b {there} -C -t {BOARDS_AIRPORT}.{TOPIC} -o beginning -c 3",
                f"  heliograph sql{at} "
                f"'SELECT datacenter, count(*) FROM global_{TOPIC} GROUP BY datacenter'",
                f"  heliograph down{at} --purge",
            ):
                say(line, markup=False, soft_wrap=True)
        elif not self.report.is_good:
            say(f"logs: {self._state.logs_dir}", markup=False, soft_wrap=True)
        say(f"{self.report.seconds['in all']:.1f} s in all", markup=False)

    def _bootstrap(self, cluster: str) -> str:
        return self._deployment.cluster(cluster).bootstrap

    def _link_status(self) -> list[dict[str, Any]]:
        names = {link.name for link in self._links.values()}
        links = reported_status(self._state)["links"]
        return [link for link in links if link["name"] in names]

    def _aggregator_url(self) -> str:
        for entry in reported_status(self._state)["aggregators"]:
            if entry["cluster"] == self._aggregate.name and entry["url"] is not None:
                return str(entry["url"])
        raise DemoError(f"no aggregator of {self._aggregate.name} runs")

    @contextlib.contextmanager
    def _step(self, name: str) -> Iterator[None]:
        self._step_name = name
        started_s = time.monotonic()
        try:
            yield
        finally:
            self.report.seconds[name] = time.monotonic() - started_s
        self._console.print(f"{name}: {self.report.seconds[name]:.1f} s", style="dim")

    def _fail(self, why: str, details: tuple[str, ...] = ()) -> None:
        self.report.failure = f"{self._step_name}: {why}"
        self._console.print(
            f"failed to {self.report.failure}", style="bold red", markup=False, soft_wrap=True
        )
        for line in details:
            self._console.print(line, markup=False, soft_wrap=True)


_EXPECTED: Final = (
    BoardsError,
    DemoError,
    DeployError,
    FeedError,
    FlightsMissingError,
    KafkaError,
    MirrorStalledError,
    OSError,
    SparkStartError,
)


def _stop_spark(starting: Future[SparkSession]) -> None:
    # A failed start was, or will be, told by who needs the session.
    with contextlib.suppress(SparkStartError, PySparkException, OSError):
        stop_session(starting.result())


@contextlib.contextmanager
def _terminated_as_interrupt() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does: with the deployment stopped."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
