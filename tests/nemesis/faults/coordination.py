"""ZooKeeper dies or hangs under all brokers."""

from __future__ import annotations

from typing import Final

from tests.nemesis.cluster import Cluster
from tests.nemesis.faults.fault import OURS, Fault


async def _kill(cluster: Cluster) -> None:
    cluster.kill_zookeeper()


async def _pause(cluster: Cluster) -> None:
    cluster.pause_zookeeper()


async def _kill_with_leader(cluster: Cluster) -> None:
    """Nobody can elect another until ZooKeeper is back."""
    node = await cluster.leader(cluster.watched_topic)
    await _kill(cluster)
    await cluster.kill(node)


FAULTS: Final = (
    Fault(name="kill-zookeeper", title="kill -9 of ZooKeeper", inject=_kill, systems=(OURS,)),
    Fault(
        name="pause-zookeeper",
        title="SIGSTOP of ZooKeeper, longer than all sessions",
        inject=_pause,
        systems=(OURS,),
    ),
    Fault(
        name="kill-zookeeper-and-leader",
        title="kill -9 of ZooKeeper and the leader at once",
        inject=_kill_with_leader,
        systems=(OURS,),
    ),
)
