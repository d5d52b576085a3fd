"""All outside clients of a deployment: who writes and reads where, and how they begin and end."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from typing import Final

from tests.referee.admin import Admin
from tests.referee.clients import Client
from tests.referee.groups import Marker, Reader
from tests.referee.ledger import Ledger
from tests.referee.modes import State, copy_name, writers_of
from tests.referee.plan import Plan, TopicPlan
from tests.referee.transactions import TransactionalWriter
from tests.referee.writers import IN_FLIGHT_MAX, IN_FLIGHT_MAX_TO_KAFKA, Writer

GROUPS: Final = ("readers", "markers")
TRANSACTIONAL_WRITERS: Final = 2
"""In each cluster."""
KEPT_CONFIG: Final = {"cleanup.policy": "delete", "retention.ms": "-1"}


def group_name(plan: Plan, kind: str, cluster: str) -> str:
    """The group of a kind at a cluster; where links merge topics, one group is at all sources."""
    return kind if plan.shape.options.get("merge") else f"{kind}-{cluster}"


def group_states(plan: Plan) -> list[State]:
    """The topics that groups read. A re-created topic's positions are not checked."""
    return [topic.state for topic in plan.topics if topic.state is not State.RECREATED]


class Load:
    """Starts and stops the clients of a plan."""

    def __init__(self, plan: Plan, admins: Mapping[str, Admin], ledger: Ledger) -> None:
        self._plan = plan
        self._admins = admins
        self._ledger = ledger
        self._numbers = itertools.count()
        self._writers: dict[tuple[str, bool], Client] = {}
        """The writer of each cluster, and that of its topic that is re-created."""
        self._others: list[Client] = []
        self._lock = threading.Lock()

    def create_topics(self) -> None:
        """Create the topics to write to, and the copies that keep everything."""
        for topic in self._plan.topics:
            for cluster in writers_of(self._plan.mode, topic.state):
                self._create(topic, cluster)
        kept = [topic for topic in self._plan.topics if topic.state is State.KEPT]
        for topic in kept:
            for link in self._plan.shape.links:
                name = copy_name(self._plan.mode, link, topic.name)
                partitions = max(topic.partitions.values())
                self._admins[link.target].create_topic(name, partitions, KEPT_CONFIG)

    def start(self) -> None:
        """Start the producers."""
        for cluster in self._plan.shape.clusters:
            self._start_writer(cluster, is_recreated=False)
            self._start_writer(cluster, is_recreated=True)
            self._start_transactions(cluster)

    def start_groups(self) -> None:
        """Start the consumer groups at the sources."""
        topics = [str(state) for state in group_states(self._plan)]
        for cluster in self._plan.shape.sources:
            bootstrap = self._admins[cluster].bootstrap
            names = [group_name(self._plan, kind, cluster) for kind in GROUPS]
            for client in (
                Reader(bootstrap, names[0], topics),
                Marker(bootstrap, names[1], topics),
            ):
                client.start()
                self._others.append(client)

    def replace(self, cluster: str, state: State) -> None:
        """Delete the topic of a state and create it again, while nobody writes to it.

        Raises AdminGaveUp, RuntimeError.
        """
        topic = next(each for each in self._plan.topics if each.state is state)
        with self._lock:
            writer = self._writers.pop((cluster, True), None)
        if writer is None:
            return  # all is being stopped
        writer.stopping.set()
        writer.join_well()
        self._admins[cluster].delete_topic(topic.name)
        self._ledger.begin_generation(cluster, topic.name)
        self._create(topic, cluster)
        self._start_writer(cluster, is_recreated=True)

    def stop(self) -> None:
        """Stop all clients, and wait until each knows what it can know. Raises RuntimeError."""
        with self._lock:
            clients = [*self._writers.values(), *self._others]
            self._writers.clear()
        for client in clients:
            client.stopping.set()
        for client in clients:
            client.join_well()

    def _create(self, topic: TopicPlan, cluster: str) -> None:
        self._admins[cluster].create_topic(topic.name, topic.partitions[cluster], topic.config)

    def _start_writer(self, cluster: str, *, is_recreated: bool) -> None:
        states = [
            topic.state
            for topic in self._plan.topics
            if cluster in writers_of(self._plan.mode, topic.state)
            and (topic.state is State.RECREATED) == is_recreated
        ]
        if not states:
            return
        share = len(states) / len(self._plan.topics)
        is_kafka = any(each.name == cluster and each.is_external for each in self._plan.clusters)
        writer = Writer(
            self._ledger,
            cluster,
            self._admins[cluster].bootstrap,
            states,
            self._plan.codecs[cluster],
            self._plan.records_per_second * share,
            f"{self._plan.seed}-{next(self._numbers)}",
            in_flight_max=IN_FLIGHT_MAX_TO_KAFKA if is_kafka else IN_FLIGHT_MAX,
        )
        with self._lock:
            self._writers[cluster, is_recreated] = writer
        writer.start()

    def _start_transactions(self, cluster: str) -> None:
        for topic in self._plan.topics:
            state = topic.state
            if state is State.TRANSACTIONAL and cluster in writers_of(self._plan.mode, state):
                for _ in range(TRANSACTIONAL_WRITERS):
                    writer = TransactionalWriter(
                        self._ledger,
                        cluster,
                        self._admins[cluster].bootstrap,
                        state,
                        topic.partitions[cluster],
                        self._plan.codecs[cluster][0],
                        f"{self._plan.seed}-{next(self._numbers)}",
                    )
                    writer.start()
                    self._others.append(writer)
