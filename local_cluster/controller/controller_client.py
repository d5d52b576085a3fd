"""Asks the controller, wherever it is, to create a topic: CreateTopics between brokers."""

from __future__ import annotations

import asyncio
from typing import Final

from local_cluster.client.connection import connect
from local_cluster.controller.model import BrokerEndpoints
from local_cluster.controller.topic_requests import TopicSpec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

CLIENT_ID: Final = "heliograph-broker"


async def create_topics_at(
    controller: BrokerEndpoints, listener: str, spec: TopicSpec, timeout_ms: int
) -> KafkaError | None:
    """What the controller said. Raises KafkaError where it cannot be asked."""
    if listener not in controller.listeners:
        raise KafkaError(
            ErrorCode.listener_not_found, f"broker {controller.id} does not advertise {listener}"
        )
    host, port = controller.listeners[listener]
    connection = await connect(host, port, client_id=CLIENT_ID, timeout_ms=timeout_ms)
    fields = {
        "topics": [
            {
                "name": spec.name,
                "num_partitions": spec.partitions,
                "replication_factor": spec.replication_factor,
                "assignments": (),
                "configs": [{"name": k, "value": v} for k, v in spec.configs.items()],
            }
        ],
        "timeout": timeout_ms,
        "validate_only": False,
    }
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            response = await connection.call(ApiKey.CREATE_TOPICS, fields, None)
    except TimeoutError:
        raise KafkaError(ErrorCode.request_timed_out, "the controller does not answer") from None
    finally:
        await connection.close()
    (result,) = response.topics
    if result.error_code == ErrorCode.none:
        return None
    return KafkaError(result.error_code, result.error_message or "")
