"""The mirror's client of either side: `KafkaClient`, and topic ids as one given broker has them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from local_cluster.client.client import KafkaClient

from .formats.records import NO_TOPIC_ID


class MirrorClient(KafkaClient):
    """See `ports.DataSource` and `ports.DataSink`."""

    async def topic_ids(self, node_id: int, names: Sequence[str]) -> dict[str, uuid.UUID]:
        """Ids of the topics that exist, in the view of this broker. Raises KafkaError.

        A broker before Metadata v10 knows no ids; then each is NO_TOPIC_ID.
        """
        found = await self.ask_metadata(names, node_id=node_id)
        return {
            name: topic.topic_id or NO_TOPIC_ID
            for name, topic in found.topics.items()
            if not topic.error
        }
