"""The steps of the demo: deploy, feed, mirror, move a consumer group, stream, query, audit.

Mirrors run from the start, so mirroring overlaps with production. Spark starts while the flights
are fed. The last fifth of them is fed while a stream counts them, a part of it while one datacenter
is down.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from local_cluster.http_security.credentials import HttpCredentials
from spark_global.session import SHORT_JOB, SparkStartError, start_session, stop_session
from spark_global.sql import explain_error
from spark_global.views import Aggregate
from topology.demo.answers import answer, audit, warm_up, warm_up_reader
from topology.demo.boards import GROUP, check_boards
from topology.demo.clients import Connection, connection_as
from topology.demo.dashboard.charts import Band
from topology.demo.dashboard.document import View
from topology.demo.dashboard.samples import row_delays_seconds
from topology.demo.dashboard.server import serve_page
from topology.demo.dashboard.watching import Watching
from topology.demo.feed import TOPIC, create_topic, feed_airports
from topology.demo.flights import AIRPORTS, AirportFlights, flights_of, read_flights
from topology.demo.mirrored import MirroredWatch
from topology.demo.outage import (
    ask_completeness,
    brokers_down,
    outage_table,
    wait_until_complete,
    wait_until_missing,
)
from topology.demo.prepare import DemoError, demo_links
from topology.demo.report import (
    Report,
    StreamDelay,
    page_tables,
    print_answers,
    print_audit,
    print_boards,
    print_table,
    stream_table,
)
from topology.demo.stream import FlightStream
from topology.deployment.aggregate_view import aggregate_view
from topology.deployment.deployment import Deployment
from topology.deployment.state_dir import StateDir
from topology.operate.up import up
from topology.status.observe import reported_status
from topology.supervisor.control_client import SupervisorUnreachable

BOARDS_AIRPORT: Final = "jfk"
PRODUCER_USER: Final = "producer"
"""User of a secured cluster that creates and writes the topic. The group is a user as well."""

OUTAGE_AIRPORT: Final = "lga"
"""Datacenter that is shut down for some seconds."""
PRODUCED: Final = "produced"
MIRRORED: Final = "mirrored"
ROWS: Final = "rows"
LATE_SHARE: Final = 5
"""One flight in this many is fed while the stream follows; half of them during the outage."""
LIVE_SECONDS: Final = 5.0
OUTAGE_SECONDS: Final = 3.0
CHECKPOINT: Final = "demo-checkpoint"

OnCount = Callable[[str, str, int], None]
"""Called with (kind, datacenter, count)."""
BeforeAudit = Callable[[Deployment, StateDir], None]


class DemoSteps:
    """Runs the steps, and fills in the report."""

    def __init__(
        self,
        deployment: Deployment,
        state: StateDir,
        console: Console,
        *,
        master: str,
        flights_max: int | None,
        before_audit: BeforeAudit | None,
    ) -> None:
        self.deployment = deployment
        self.state = state
        self.console = console
        self.report = Report(deployment=deployment.name)
        self.step_name = "start"
        """The current step."""
        self._master = master
        self._flights_max = flights_max
        self._before_audit = before_audit
        self._links = demo_links(deployment)
        self.aggregate: Aggregate = aggregate_view(deployment, self._links[BOARDS_AIRPORT].target)
        self._on_count: OnCount = _ignore
        self.watching = Watching(deployment.name, TOPIC, AIRPORTS, self._ask_completeness)
        self._mirrored = MirroredWatch(
            self.aggregate.bootstrap,
            deployment.cluster(self.aggregate.name).security,
            {f"{self._links[name].source}.{TOPIC}": name for name in AIRPORTS},
            lambda name, count: self._count(MIRRORED, name, count),
        )

    def run(self) -> None:
        """Run every step. Raises the errors of the steps."""
        # One thread, so that Spark's start never takes more than one core.
        with ThreadPoolExecutor(1, "spark-start") as pool:
            starting = pool.submit(self._start_spark)
            try:
                with self.step("read the flights"):
                    flights = self._read_flights()
                with self.step("deploy"):
                    up(self.deployment, self.state)
                warming = pool.submit(lambda: warm_up_reader(starting.result(), self.aggregate))
                with self.watching, serve_page(self.watching.view) as address, self._mirrored:
                    self.console.print(f"dashboard: {address}", markup=False)
                    self._feed_and_mirror({name: _early(rows) for name, rows in flights.items()})
                    with self.step("move the boards"):
                        self._move_boards()
                    with self.step("wait for Spark"):
                        warming.result()
                    self._follow(starting.result(), flights)
                    if self._before_audit is not None:
                        self._before_audit(self.deployment, self.state)
                    self._ask_spark(starting.result())
            except PySparkException as error:
                # The message must be read while the JVM lives.
                raise DemoError(explain_error(error)) from error
            finally:
                _stop_spark(starting)

    def page_view(self) -> View:
        """Return the page of the whole run."""
        audit_line = None if self.report.audit is None else self.report.audit.line
        view = self.watching.view(verdict=audit_line, is_good=self.report.is_good)
        return replace(view, stage="The run has ended.", tables=page_tables(self.report))

    def _read_flights(self) -> dict[str, AirportFlights]:
        table = read_flights()
        flights = {name: flights_of(table, name) for name in AIRPORTS}
        if self._flights_max is not None:
            flights = {name: rows.first(self._flights_max) for name, rows in flights.items()}
        return flights

    def _start_spark(self) -> SparkSession:
        log_file = self.state.log_file("spark")
        session = start_session(self._master, log_file=log_file, settings=SHORT_JOB)
        warm_up(session)
        return session

    def _feed_and_mirror(self, flights: Mapping[str, AirportFlights]) -> None:
        for name in AIRPORTS:
            create_topic(self._as_user(name, PRODUCER_USER))
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
        ) as progress:
            tasks = {
                (kind, name): progress.add_task(
                    f"{name}: {kind}" + (f" to {self.aggregate.name}" if kind == MIRRORED else ""),
                    total=len(rows),
                )
                for kind in (PRODUCED, MIRRORED)
                for name, rows in flights.items()
            }
            self._on_count = lambda kind, name, count: progress.update(
                tasks[kind, name], completed=count
            )
            try:
                with self.step("feed"):
                    self._feed(flights)
                with self.step("mirror the rest"):
                    self._mirrored.wait(self.report.produced, self._link_status)
            finally:
                self._on_count = _ignore

    def _follow(self, session: SparkSession, flights: Mapping[str, AirportFlights]) -> None:
        """Stream the flights; feed the rest of them, a part while one datacenter is down."""
        others = [name for name in AIRPORTS if name != OUTAGE_AIRPORT]
        late = {name: _late(rows) for name, rows in flights.items()}
        with FlightStream(
            session,
            self.aggregate,
            TOPIC,
            self.state.data_dir / CHECKPOINT,
            lambda name, count: self._count(ROWS, name, count),
        ) as stream:
            self.watching.follow_lag(stream.lags)
            with self.step("stream what is there"):
                stream.wait(self.report.produced)
            since_seconds = self.watching.elapsed_seconds
            with self.step("feed while the stream follows"):
                self._feed(
                    {name: _half(rows, first=True) for name, rows in late.items()},
                    seconds=LIVE_SECONDS,
                )
            with self.step(f"shut {OUTAGE_AIRPORT} down"):
                self._shut_down({name: _half(late[name], first=False) for name in others})
            print_table(self.console, outage_table(OUTAGE_AIRPORT, self.report.outage))
            with self.step(f"{OUTAGE_AIRPORT} is back"):
                self._feed({OUTAGE_AIRPORT: _half(late[OUTAGE_AIRPORT], first=False)})
                self._mirrored.wait(self.report.produced, self._link_status)
                stream.wait(self.report.produced)
                wait_until_complete(
                    self._ask_completeness, time.time_ns() // 1_000_000, OUTAGE_AIRPORT
                )
            self.report.rows = stream.rows
        self.watching.follow_lag(tuple)
        samples = self.watching.samples
        for name in AIRPORTS:
            if delays := row_delays_seconds(samples, name, since_seconds):
                self.report.delays[name] = StreamDelay.of(delays)
        print_table(self.console, stream_table(self.report))

    def _shut_down(self, flights: Mapping[str, AirportFlights]) -> None:
        """Stop one datacenter, feed the others, and ask what is known; then start it again."""
        begin_seconds = self.watching.elapsed_seconds
        with brokers_down(self.deployment, self.state, OUTAGE_AIRPORT):
            self.report.outage_datacenter = OUTAGE_AIRPORT
            self._feed(flights, seconds=OUTAGE_SECONDS)
            self.report.outage = wait_until_missing(self._ask_completeness, OUTAGE_AIRPORT)
        self.watching.add_band(
            Band(f"{OUTAGE_AIRPORT} was down", begin_seconds, self.watching.elapsed_seconds)
        )
        self.watching.add_table(outage_table(OUTAGE_AIRPORT, self.report.outage))

    def _feed(self, flights: Mapping[str, AirportFlights], *, seconds: float = 0.0) -> None:
        """Produce flights after those that were produced before."""
        before = {name: self.report.produced.get(name, 0) for name in flights}
        feed_airports(
            flights,
            {name: self._as_user(name, PRODUCER_USER) for name in flights},
            lambda name, count: self._count(PRODUCED, name, before[name] + count),
            seconds=seconds,
        )
        for name, rows in flights.items():
            self.report.produced[name] = before[name] + len(rows)

    def _count(self, kind: str, name: str, count: int) -> None:
        self.watching.set_count(kind, name, count)
        self._on_count(kind, name, count)

    def _ask_completeness(self) -> Mapping[str, Any] | None:
        with contextlib.suppress(SupervisorUnreachable):
            return ask_completeness(self.deployment, self.state, self.aggregate.name, TOPIC)
        return None

    def _move_boards(self) -> None:
        self.report.boards = check_boards(
            source=self._as_user(BOARDS_AIRPORT, GROUP),
            aggregate=self._as_user(self.aggregate.name, GROUP),
            api=self._aggregator_url(),
            credentials=HttpCredentials(self.deployment.http),
            link=self._links[BOARDS_AIRPORT].name,
            topic=TOPIC,
        )
        print_boards(self.console, self.report.boards, BOARDS_AIRPORT, self.aggregate.name)

    def _ask_spark(self, session: SparkSession) -> None:
        datacenters = [link.datacenter for link in self.aggregate.links]
        with self.step("answer"):
            self.report.answers = answer(session, self.aggregate, TOPIC, datacenters)
        print_answers(self.console, self.report.answers)
        with self.step("audit"):
            self.report.audit = audit(session, self.aggregate, TOPIC)
        print_audit(self.console, self.report.audit)

    def _as_user(self, cluster: str, user: str) -> Connection:
        return connection_as(self.deployment.cluster(cluster), user)

    def _link_status(self) -> list[dict[str, Any]]:
        names = {link.name for link in self._links.values()}
        links = reported_status(self.state)["links"]
        return [link for link in links if link["name"] in names]

    def _aggregator_url(self) -> str:
        for entry in reported_status(self.state)["aggregators"]:
            if entry["cluster"] == self.aggregate.name and entry["url"] is not None:
                return str(entry["url"])
        raise DemoError(f"no aggregator of {self.aggregate.name} runs")

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure a step, and print its name and seconds."""
        self.step_name = name
        self.watching.set_stage(name)
        started_s = time.monotonic()
        try:
            yield
        finally:
            self.report.seconds[name] = time.monotonic() - started_s
        self.console.print(f"{name}: {self.report.seconds[name]:.1f} s", style="dim")


def _early(rows: AirportFlights) -> AirportFlights:
    return rows.first(len(rows) - len(rows) // LATE_SHARE)


def _late(rows: AirportFlights) -> AirportFlights:
    return rows.part(len(rows) - len(rows) // LATE_SHARE, len(rows))


def _half(rows: AirportFlights, *, first: bool) -> AirportFlights:
    middle = len(rows) // 2
    return rows.first(middle) if first else rows.part(middle, len(rows))


def _ignore(kind: str, name: str, count: int) -> None:
    return


def _stop_spark(starting: Future[SparkSession]) -> None:
    # The step that needs the session reports a failed start.
    with contextlib.suppress(SparkStartError, PySparkException, OSError):
        stop_session(starting.result())
