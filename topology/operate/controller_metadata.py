"""What a cluster's controller says of its topics: it is the first to know what moved, and who is in
sync no more.

Imports the Kafka client: load it where a cluster is asked.
"""

from __future__ import annotations

import asyncio

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import ClusterMetadata
from local_cluster.wire.errors import KafkaError


async def read_from_controller(
    bootstrap: str, *, client_id: str, timeout_s: float
) -> ClusterMetadata | None:
    """Every topic; None where the cluster does not say now, and within the time."""
    try:
        async with (
            asyncio.timeout(timeout_s),
            KafkaClient(bootstrap, client_id=client_id) as client,
        ):
            controller_id = (await client.metadata([])).controller_id
            if controller_id < 0:  # there is none now
                return None
            metadata = await client.metadata(node_id=controller_id)
    except (KafkaError, OSError, TimeoutError):
        return None
    # Where it has moved meanwhile, who was asked may be behind.
    return metadata if metadata.controller_id == controller_id else None
