"""An upgrade as operators do it: broker after broker, while old and new ones serve together."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from local_cluster.wire.api import ApiKey
from tests.nemesis import older
from tests.nemesis.cluster import REQUEST_MS_MAX, Cluster, ClusterOptions, until
from tests.nemesis.faults.fault import OURS, Fault
from tests.support.cluster import PRESENT_CODE, BrokerProcess

MIXED_SECONDS: Final = 5.0
"""For how long each mixture serves: records, groups and transactions go through it meanwhile."""
ROLLED_BACK: Final = 1
"""It leads what the workloads write first, and is the first to be upgraded."""


async def _upgrade(cluster: Cluster) -> None:
    """One broker after the other gets the present code; then one goes back to the older, and on.

    Whoever goes back reads what the present code wrote, and leads again what it led.
    """
    for node in cluster.nodes:
        await _run(cluster, node, PRESENT_CODE)
    await _run(cluster, ROLLED_BACK, older.code(cluster.directory))
    await _run(cluster, ROLLED_BACK, PRESENT_CODE)


async def _run(cluster: Cluster, node: int, code: Path) -> None:
    """Stop a broker cleanly and start it with this code; it leads again before the next step."""
    broker = cluster.nodes[node]
    assert isinstance(broker, BrokerProcess)
    await cluster.stop(node)
    broker.code = code
    await cluster.start(node)
    await cluster.until_in_sync([cluster.watched_topic])
    await _elect_preferred(cluster)
    await cluster.sleep(MIXED_SECONDS)


async def _elect_preferred(cluster: Cluster) -> None:
    """What kafka-leader-election is for after a restart: old and new code lead, and both follow."""

    async def asked() -> bool:
        everywhere = {"election_type": 0, "topic_partitions": None, "timeout": REQUEST_MS_MAX}
        async with cluster.client() as client:
            await client.call_controller(ApiKey.ELECT_LEADERS, everywhere)
        return True

    await until(asked, "preferred leaders asked for")


FAULTS: Final = (
    Fault(
        name="rolling-upgrade",
        title="a rolling upgrade from older code, and one broker back and forth",
        inject=_upgrade,
        hold_seconds=0.0,
        options=ClusterOptions(older_version=True),
        systems=(OURS,),
        is_mixed=False,
        why_not=older.why_not,
    ),
)
