"""What the operators of a simulated cluster request: moves, elections, deletions, other configs.

An operator may be refused, or never get a response. Each method returns whether it requested
something.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from local_cluster.controller.decisions.reassignments import ReassignmentRequest
from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.topic_requests import PartitionsSpec
from local_cluster.controller.zk.coordination import CoordinationUnavailable
from local_cluster.wire.errors import KafkaError
from tests.sim.broker.sim_broker import SimBroker
from tests.sim.cluster.checks import ClusterChecks
from tests.sim.cluster.client import SimClient
from tests.sim.cluster.names import At, Log
from tests.sim.cluster.producer import SimProducer
from tests.sim.cluster.record_deletions import delete_records
from tests.sim.cluster.sim_cluster import SimCluster

MIN_INSYNC_REPLICAS = ("1", "2", "3")
PARTITIONS_MAX = 3
ADMIN_TIMEOUT_MS = 10_000
REFUSALS = (KafkaError, TimeoutError, CoordinationUnavailable)
"""What a request may raise; any other exception is a failure of the broker."""


class Operators:
    """Requests to the brokers, from outside."""

    def __init__(
        self,
        cluster: SimCluster,
        checks: ClusterChecks,
        producers: Sequence[SimProducer],
        operate: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """`operate` runs work that the simulation waits for."""
        self._cluster = cluster
        self._random = cluster.random
        self._checks = checks
        self._producers = producers
        self._operate = operate
        self._client = SimClient(cluster)

    def move(self, _: SimBroker) -> bool:
        """Move a partition to any number of replicas, on any of the brokers."""
        brokers = list(self._cluster.brokers)
        # With page_cache a single replica has no other to learn from what it lost.
        least = 1 if self._cluster.scenario.flush == "fsync" else 3
        target = self._random.sample(brokers, self._random.randint(least, 3))
        return self.reassign(self._some_partition(), tuple(target))

    def cancel_move(self, _: SimBroker) -> bool:
        """Cancel the reassignment of a partition."""
        return self.reassign(self._some_partition(), None)

    def reassign(self, at: At | None, target: tuple[int, ...] | None) -> bool:
        """Reassign a partition; without a target cancel its reassignment."""
        controller = self._cluster.controller()
        if controller is None or at is None:
            return False
        self._request(
            controller,
            controller.control_plane.alter_reassignments(
                [ReassignmentRequest(*at, target)],
                may_change_factor=True,
                timeout_ms=ADMIN_TIMEOUT_MS,
            ),
        )
        return True

    def move_dir(self, broker: SimBroker) -> bool:
        """Move a replica to another log directory of its broker, or cancel such a move."""
        directories = broker.log_directories
        replicas = list(broker.replicas) if broker.is_alive and broker.is_serving else []
        if not replicas or len(directories.live) < len(directories.all):
            return False
        partition = self._random.choice(replicas)
        at = At(partition.topic, partition.partition)
        target = self._random.choice(directories.live)

        async def move() -> None:
            if target is directories.of(*at):
                broker.log_dir_moves.cancel(*at)
            else:
                broker.log_dir_moves.begin(partition, target)

        self._request(broker, move())
        return True

    def elect_preferred(self, _: SimBroker) -> bool:
        """Request preferred elections of all partitions."""
        controller = self._cluster.controller()
        if controller is None:
            return False
        self._request(
            controller,
            controller.control_plane.elect_leaders(
                self._cluster.partitions_in_zookeeper(), unclean=False, timeout_ms=ADMIN_TIMEOUT_MS
            ),
        )
        return True

    def min_insync(self, broker: SimBroker) -> bool:
        """Change min.insync.replicas of the topic."""
        if not broker.is_alive or not broker.is_serving:
            return False
        value = self._random.choice(MIN_INSYNC_REPLICAS)
        self._request(
            broker,
            broker.control_plane.configs.alter_topic(
                self._cluster.topic, lambda configs: {**configs, "min.insync.replicas": value}
            ),
        )
        return True

    def add_partition(self, _: SimBroker) -> bool:
        """Add a partition to the topic."""
        controller = self._cluster.controller()
        count = len(self._producers) + 1
        if controller is None or count > PARTITIONS_MAX:
            return False
        self._request(
            controller,
            controller.control_plane.create_partitions(
                [PartitionsSpec(topic=self._cluster.topic, count=count)]
            ),
        )
        return True

    def delete_records(self, _: SimBroker) -> bool:
        """Delete the records before an offset, which may lie within a batch."""
        cluster = self._cluster
        topic_id = cluster.living_topic_id(cluster.topic)
        candidates = [at for at in cluster.partitions_in_zookeeper() if at.topic == cluster.topic]
        if topic_id is None or not candidates:
            return False
        log = Log(self._random.choice(candidates), topic_id)
        committed = self._checks.committed_of(log)
        # A replica that was away for a while lacks records near the end.
        least = self._random.choice((1, committed.end_offset - 5, committed.end_offset))
        if committed.end_offset < 1:
            return False
        offset = self._random.randint(max(least, 1), committed.end_offset)
        self._operate(delete_records(self._client, log, committed, offset))
        return True

    def recreate(self, _: SimBroker) -> bool:
        """Delete the topic; the world re-creates it."""
        controller = self._cluster.controller()
        if controller is None or self._cluster.is_healed:
            return False
        self._request(
            controller,
            controller.control_plane.delete_topics(
                [self._cluster.topic], timeout_ms=ADMIN_TIMEOUT_MS
            ),
        )
        return True

    def wipe(self, _: SimBroker) -> bool:
        """Remove the topic's znodes by hand, as before Kafka could delete topics."""
        if self._cluster.living_topic_id(self._cluster.topic) is None:
            return False
        for path in (znode_paths.topic_path, znode_paths.topic_config_path):
            self._cluster.zookeeper.remove(path(self._cluster.topic))
        return True

    def depose(self, _: SimBroker) -> bool:
        """Remove the controller's znode, to have another controller elected."""
        if znode_paths.CONTROLLER not in self._cluster.zookeeper.tree:
            return False
        self._cluster.zookeeper.remove(znode_paths.CONTROLLER)
        return True

    def _some_partition(self) -> At | None:
        partitions = self._cluster.partitions_in_zookeeper()
        return self._random.choice(partitions) if partitions else None

    def _request(self, broker: SimBroker, work: Coroutine[Any, Any, Any]) -> None:
        """Have a broker serve a request; a refusal is no failure."""

        def ended(done: asyncio.Task[Any]) -> None:
            error = None if done.cancelled() else done.exception()
            if error is not None and not isinstance(error, REFUSALS):
                broker.failure = error

        broker.as_its_own(work).add_done_callback(ended)
