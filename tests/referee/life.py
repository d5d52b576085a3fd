"""The life of one deployment: up, load, faults, healing, catching up, and the checks."""

from __future__ import annotations

import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.referee import api
from tests.referee.admin import Admin, AdminGaveUp
from tests.referee.checks.finding import Judgement, Promise
from tests.referee.deployment import RUNNING, CommandFailed, Deployment
from tests.referee.faults import Injector, Workers
from tests.referee.judging import Judge
from tests.referee.kafka import KafkaNode
from tests.referee.ledger import Ledger
from tests.referee.load import Load
from tests.referee.modes import State
from tests.referee.operations import Operator
from tests.referee.plan import Plan
from tests.referee.reading import LogUnreadable
from tests.referee.topology_file import Ports, topology_text
from tests.referee.undecided_tails import explain_link, is_undecided
from tests.support.quiet_ports import quiet_ports

HEAL_SECONDS_MAX: Final = 120.0
CALM_SECONDS: Final = 5.0
"""Load after healing: everything must make progress."""

_RUNS: Final = ("RUNNING",)
_COPIES: Final = ("RUNNING", "CATCHING_UP")
"""States of partitions, of /api/v1/lag."""

_LINK_SHOWN: Final = ("state", "reason", "partitions", "lag_records", "standing_still")

Say = Callable[[str], None]


class _Behind(NamedTuple):
    """A link, or a partition of one, that has not copied all."""

    link: str
    text: str
    topic: str | None = None
    partition: int | None = None
    is_failed: bool = False
    """Whether it waits for an operator."""

    @property
    def at(self) -> tuple[str, str | None, int | None]:
        return self.link, self.topic, self.partition

    @property
    def where(self) -> str:
        return self.link if self.topic is None else f"{self.link}: {self.topic}-{self.partition}"


class Life:
    """One deployment, judged at its end."""

    def __init__(
        self,
        plan: Plan,
        directory: Path,
        offsets_max: int,
        catch_up_seconds_max: float,
        say: Say,
    ) -> None:
        """`directory` is empty; `offsets_max` bounds how many offsets are translated.

        A topic that was re-created is copied on after a quiet minute, which begins again with each
        fault: `catch_up_seconds_max` is some minutes where that is played.
        """
        self._plan = plan
        self._directory = directory
        self._offsets_max = offsets_max
        self._catch_up_seconds_max = catch_up_seconds_max
        self._say = say
        self._ports = Ports(plan, quiet_ports(Ports.count(plan)))
        self._deployment = Deployment(directory)
        self._ledger = Ledger()
        self._standing_still: set[tuple[str, str | None, int | None]] = set()
        self._undecided: set[tuple[str, str | None, int | None]] = set()
        """Links, source topics and partitions of undecided tails, as last seen."""
        self._admins = {
            each.name: Admin(
                ",".join(f"127.0.0.1:{port}" for port in self._ports.brokers[each.name])
            )
            for each in plan.clusters
        }
        self._urls = {
            target: f"http://127.0.0.1:{port}" for target, port in self._ports.aggregators.items()
        }

    def live(self) -> Judgement:
        """Play the plan and judge it. Everything that was started has ended afterwards."""
        judgement = Judgement()
        with ExitStack() as stack:
            kafka = stack.enter_context(self._kafka())
            stack.callback(self._down)
            self._say("bringing the clusters up")
            self._up(with_links=False)
            load = Load(self._plan, self._admins, self._ledger)
            load.create_topics()
            load.start()
            self._say(f"load without links for {self._plan.prelude_seconds:.0f} s")
            time.sleep(self._plan.prelude_seconds)
            judgement.add(self._add_links())
            workers = Workers(self._deployment, self._directory, self._plan.extra_workers)
            stack.callback(workers.stop)
            self._wait_for_copies()
            load.start_groups()
            injector = Injector(self._deployment, kafka, workers, self._say)
            stack.callback(injector.heal)
            operator = Operator(
                self._plan, self._deployment, self._admins, load, injector, self._say
            )
            operator.start()
            self._do_faults(injector)
            injector.heal()
            self._say("healed")
            judgement.add(self._finish(operator))
            time.sleep(CALM_SECONDS)
            judgement.add(self._stop(load))
            judgement.figures += injector.done + operator.done
            judgement.add(self._wait_caught_up())
            judgement.add(self._judge())
        self._count(judgement.figures)
        return judgement

    def delete_files(self) -> None:
        """Delete what the life has left in its directory."""
        shutil.rmtree(self._directory, ignore_errors=True)

    @contextmanager
    def _kafka(self) -> Iterator[Mapping[str, KafkaNode]]:
        external = [each.name for each in self._plan.clusters if each.is_external]
        nodes: dict[str, KafkaNode] = {}
        try:
            for name in external:
                port, controller = self._ports.brokers[name][0], quiet_ports(1)[0]
                nodes[name] = KafkaNode(self._directory / f"kafka-{name}", port, controller)
                nodes[name].start()
            for node in nodes.values():
                node.wait_answering()
            yield nodes
        finally:
            for node in nodes.values():
                node.stop()

    def _up(self, *, with_links: bool) -> None:
        name = f"referee-{self._plan.mode}"
        text = topology_text(self._plan, self._ports, name, with_links=with_links)
        self._deployment.up(text)

    def _add_links(self) -> Judgement:
        """Have the links run. A link with a problem is a finding, and the life continues."""
        judgement = Judgement()
        try:
            self._up(with_links=True)
        except CommandFailed as error:
            judgement.find(Promise.PROGRESS, "up", self._plan.mode, str(error))
        return judgement

    def _down(self) -> None:
        # Logs are kept to look into findings; data is not.
        if self._deployment.logs.exists():
            shutil.copytree(self._deployment.logs, self._directory / "logs", dirs_exist_ok=True)
            self._deployment.down()

    def _wait_for_copies(self) -> None:
        """Wait until every link copies something of every topic: only what is copied can lose."""
        self._say("links run; waiting until they copy")
        deadline = time.monotonic() + HEAL_SECONDS_MAX
        while self._flow_problems(_COPIES) and time.monotonic() < deadline:
            time.sleep(0.5)

    def _do_faults(self, injector: Injector) -> None:
        started = time.monotonic()
        for due, fault in self._plan.faults:
            time.sleep(max(0.0, started + due - time.monotonic()))
            self._say(f"{time.monotonic() - started:5.1f} s: {fault}")
            injector.do(fault)
        time.sleep(max(0.0, started + self._plan.load_seconds - time.monotonic()))

    def _finish(self, operator: Operator) -> Judgement:
        judgement = Judgement()
        for daemon in self._deployment.wait_running(HEAL_SECONDS_MAX):
            text = f"it does not run {HEAL_SECONDS_MAX:.0f} s after healing"
            judgement.find(Promise.PROGRESS, "away", daemon, text)
        operator.stopping.set()
        try:
            operator.join_well()
            operator.release_all()
        except (RuntimeError, CommandFailed) as error:
            judgement.find(Promise.PROGRESS, "operations", self._plan.mode, str(error))
        return judgement

    def _stop(self, load: Load) -> Judgement:
        self._say("stopping the load")
        judgement = Judgement()
        try:
            load.stop()
        except RuntimeError as error:
            judgement.find(Promise.PROGRESS, "clients", self._plan.mode, str(error))
        return judgement

    def _wait_caught_up(self) -> Judgement:
        self._say("waiting until the mirrors say that they have caught up")
        judgement = Judgement()
        deadline = time.monotonic() + self._catch_up_seconds_max
        while behind := self._behind():
            if time.monotonic() > deadline:
                for each in behind:
                    text = f"not caught up {self._catch_up_seconds_max:.0f} s later: {each.text}"
                    judgement.find(Promise.PROGRESS, "behind", each.where, text)
                    self._standing_still.add((each.link, each.topic, each.partition))
                break
            time.sleep(1.0)
        for link, topic, partition in self._undecided:
            self._say(f"undecided tail: {link}: {topic}-{partition}")
            judgement.figures["undecided tails"] += 1
            self._standing_still.add((link, topic, partition))
        return judgement

    def _behind(self) -> list[_Behind]:
        """What the mirrors say is not copied yet; empty once all of it is, but undecided tails."""
        links = {each["name"]: each for each in self._deployment.status()["links"]}
        expected = {
            shape.name: self._source_partitions(shape.source) for shape in self._plan.shape.links
        }
        slow = [
            links[name]
            for name, partitions in expected.items()
            if (links[name]["state"], links[name]["lag_records"]) != (RUNNING, 0)
            or links[name]["partitions"] != partitions
        ]
        self._undecided.clear()
        if not slow:
            return []
        problems = self._flow_problems(_RUNS, lag_max=0)
        self._undecided.update(each.at for each in problems if self._is_undecided(each))
        behind = []
        for link in slow:
            name, partitions = link["name"], expected[link["name"]]
            undecided = {(topic, number) for at, topic, number in self._undecided if at == name}
            if link["partitions"] != partitions or not explain_link(link, undecided):
                shown = {key: link[key] for key in _LINK_SHOWN}
                behind.append(_Behind(name, f"{shown}, source partitions {partitions}"))
        return [*behind, *(each for each in problems if each.at not in self._undecided)]

    def _is_undecided(self, behind: _Behind) -> bool:
        """Whether a partition has stopped in the one way that is counted."""
        compacted = {each.name for each in self._plan.topics if each.state is State.COMPACTED}
        if not behind.is_failed or behind.topic not in compacted:
            return False
        try:
            stop = self._deployment.stop_of(behind.link, behind.topic, behind.partition or 0)
        except CommandFailed:
            return False  # no worker answers yet
        return is_undecided(stop)

    def _source_partitions(self, cluster: str) -> int:
        counts = self._admins[cluster].partition_counts()
        return sum(counts.get(topic.name, 0) for topic in self._plan.topics)

    def _flow_problems(self, states: Collection[str], lag_max: float = math.inf) -> list[_Behind]:
        """Partitions in another state or with more lag, in the words of the aggregators."""
        found = []
        topics = {topic.name for topic in self._plan.topics}
        for link in self._plan.shape.links:
            try:
                lag = api.get(self._urls[link.target], "/api/v1/lag", {"link": link.name})
            except api.ApiUnavailable as error:
                found.append(_Behind(link.name, str(error)))
                continue
            parts = [part for part in lag["links"][0]["partitions"] if part["topic"] in topics]
            for topic in topics - {part["topic"] for part in parts}:
                found.append(_Behind(link.name, "the link does not know it", topic))
            found += [
                _Behind(
                    link.name,
                    f"{part['state']}, lag {part['records']}",
                    part["topic"],
                    part["partition"],
                    is_failed=part["state"] == "FAILED",
                )
                for part in parts
                if part["state"] not in states
                or part["records"] is None
                or part["records"] > lag_max
            ]
        return found

    def _judge(self) -> Judgement:
        self._say("reading the logs and judging")
        judge = Judge(
            self._plan,
            self._deployment,
            self._admins,
            self._urls,
            self._ledger,
            self._standing_still,
            self._offsets_max,
            self._say,
        )
        try:
            return judge.judge()
        except (AdminGaveUp, CommandFailed, LogUnreadable, api.ApiUnavailable) as error:
            judgement = Judgement()
            judgement.find(Promise.PROGRESS, "unreadable", self._plan.mode, str(error))
            return judgement

    def _count(self, figures: Counter[str]) -> None:
        figures["lives"] += 1
        figures["links"] += len(self._plan.shape.links)
        figures.update({f"transactions {k}": n for k, n in self._ledger.fates().items()})
        for each in self._ledger.written().values():
            figures[f"records sent: {each.fate}"] += 1
