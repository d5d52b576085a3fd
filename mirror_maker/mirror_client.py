"""The mirror's client of either side: `KafkaClient`, and topic ids as one given broker has them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from local_cluster.client.client import KafkaClient
from local_cluster.wire.api import ApiKey
from local_cluster.wire.messages import get

from .formats.records import NO_TOPIC_ID


class MirrorClient(KafkaClient):
    """See `ports.DataSource` and `ports.DataSink`."""

    async def topic_ids(self, node_id: int, names: Sequence[str]) -> dict[str, uuid.UUID]:
        """Ids of the topics that exist, in the view of this broker. Raises KafkaError.

        A broker before Metadata v10 knows no ids; then each is NO_TOPIC_ID.
        """
        fields = {
            "topics": [{"name": name, "topic_id": None} for name in names],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        }
        response = await self.call(ApiKey.METADATA, fields, node_id=node_id)
        return {
            topic.name: get(topic, "topic_id", None) or NO_TOPIC_ID
            for topic in response.topics
            if not topic.error_code
        }
