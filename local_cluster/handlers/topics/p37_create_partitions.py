"""CreatePartitions v0-v3 (KIP-195): the controller only; elsewhere NOT_CONTROLLER for each topic.

New partitions get one replica each, on the brokers that hold the fewest of the topic, or as the
request says. v2 is flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from local_cluster.controller.model.topic_requests import PartitionsSpec, repeated
from local_cluster.handlers.deferred import ThrottledBody
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.handlers.topics.mutation_quota import mutation_charge, with_throttle_time
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.create_partitions.v3.request import (
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )

    from local_cluster.wire.responses.topics import CreatePartitionsResponse

QUOTA_STRICT_SINCE: Final = 3
"""From this version on, above the quota of mutations nothing is created."""


@handles(ApiKey.CREATE_PARTITIONS, min_version=0, max_version=3)
def create_partitions(
    broker: BrokerServices, context: RequestContext, request: CreatePartitionsRequest
) -> Awaitable[CreatePartitionsResponse | ThrottledBody]:
    """Add partitions to each topic that may have more."""
    return _create(broker, context, request)


async def _create(
    broker: BrokerServices, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse | ThrottledBody:
    charge = mutation_charge(broker, context, strict_since=QUOTA_STRICT_SINCE)
    twice = repeated(topic.name for topic in request.topics)
    errors: dict[str, KafkaError | None] = {}
    specs = []
    for topic in request.topics:
        if topic.name in twice:
            errors[topic.name] = KafkaError(ErrorCode.invalid_request, "Duplicate topic name.")
        elif not broker.authorize(context, "ALTER", "TOPIC", topic.name):
            errors[topic.name] = KafkaError(ErrorCode.topic_authorization_failed)
        else:
            specs.append(_spec(topic))
    try:
        errors |= await broker.control_plane.create_partitions(
            specs,
            validate_only=request.validate_only,
            timeout_ms=messages.ms(request.timeout),
            charge=charge.take,
        )
    except KafkaError as error:
        errors |= dict.fromkeys((spec.topic for spec in specs), error)
    response: CreatePartitionsResponse = {
        "results": [
            {
                "name": name,
                "error_code": ErrorCode.none if error is None else error.code,
                "error_message": None if error is None else error.message or None,
            }
            for name, error in errors.items()
        ],
    }
    return with_throttle_time(response, charge)


def _spec(topic: CreatePartitionsTopic) -> PartitionsSpec:
    given = topic.assignments
    return PartitionsSpec(
        topic=topic.name,
        count=topic.count,
        assignments=None if given is None else tuple(tuple(each.broker_ids) for each in given),
    )
