"""The steps of the demo: deploy, feed, mirror, move a consumer group, query, audit.

Mirrors run from the start, so mirroring overlaps with production. Spark starts while the flights
are fed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
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
from topology.demo.feed import TOPIC, create_topic, feed_airports
from topology.demo.flights import AIRPORTS, AirportFlights, flights_of, read_flights
from topology.demo.mirrored import MirroredWatch
from topology.demo.prepare import DemoError, demo_links
from topology.demo.report import Report, print_answers, print_audit, print_boards
from topology.deployment.aggregate_view import aggregate_view
from topology.deployment.deployment import Deployment
from topology.deployment.state_dir import StateDir
from topology.operate.up import up
from topology.status.observe import reported_status

BOARDS_AIRPORT: Final = "jfk"
PRODUCER_USER: Final = "producer"
"""User of a secured cluster that creates and writes the topic. The group is a user as well."""

BeforeAudit = Callable[[Deployment, StateDir], None]


class DemoSteps:
    """Runs the steps, and fills in the report."""

    def __init__(
        self,
        deployment: Deployment,
        state: StateDir,
        console: Console,
        *,
        flights_max: int | None,
        before_audit: BeforeAudit | None,
    ) -> None:
        self.deployment = deployment
        self.state = state
        self.console = console
        self.report = Report(deployment=deployment.name)
        self.step_name = "start"
        """The current step."""
        self._flights_max = flights_max
        self._before_audit = before_audit
        self._links = demo_links(deployment)
        self.aggregate: Aggregate = aggregate_view(deployment, self._links[BOARDS_AIRPORT].target)

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
                self._feed_and_mirror(flights)
                with self.step("move the boards"):
                    self._move_boards()
                if self._before_audit is not None:
                    self._before_audit(self.deployment, self.state)
                with self.step("wait for Spark"):
                    warming.result()
                self._ask_spark(starting.result())
            except PySparkException as error:
                # The message must be read while the JVM lives.
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
        session = start_session(log_file=self.state.log_file("spark"), settings=SHORT_JOB)
        warm_up(session)
        return session

    def _feed_and_mirror(self, flights: Mapping[str, AirportFlights]) -> None:
        connections = {name: self._as_user(name, PRODUCER_USER) for name in AIRPORTS}
        for connection in connections.values():
            create_topic(connection)
        mirrored_topics = {f"{self._links[name].source}.{TOPIC}": name for name in AIRPORTS}
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
        ) as progress:
            produced = {
                name: progress.add_task(f"{name}: produced", total=len(rows))
                for name, rows in flights.items()
            }
            mirrored = {
                name: progress.add_task(
                    f"{name}: mirrored to {self.aggregate.name}", total=len(rows)
                )
                for name, rows in flights.items()
            }
            with MirroredWatch(
                self.aggregate.bootstrap,
                self.deployment.cluster(self.aggregate.name).security,
                mirrored_topics,
                lambda name, count: progress.update(mirrored[name], completed=count),
            ) as watch:
                with self.step("feed"):
                    feed_airports(
                        flights,
                        connections,
                        lambda name, count: progress.update(produced[name], completed=count),
                    )
                self.report.produced = {name: len(rows) for name, rows in flights.items()}
                with self.step("mirror the rest"):
                    watch.wait(self.report.produced, self._link_status)

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
        started_s = time.monotonic()
        try:
            yield
        finally:
            self.report.seconds[name] = time.monotonic() - started_s
        self.console.print(f"{name}: {self.report.seconds[name]:.1f} s", style="dim")


def _stop_spark(starting: Future[SparkSession]) -> None:
    # The step that needs the session reports a failed start.
    with contextlib.suppress(SparkStartError, PySparkException, OSError):
        stop_session(starting.result())
