"""ConsumerGroupDescribe v0-v1 (KIP-848): groups of the consumer protocol, with their epochs.

v1 has the type of each member (KIP-1099): 0 uses the classic protocol, 1 the consumer protocol.
Deleted topics are left out of assignments. If the client may not see a topic in an assignment or
target, the whole group is TOPIC_AUTHORIZATION_FAILED, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from local_cluster.groups.consumer.model import Assignment, plain
from local_cluster.groups.consumer.requests import DescribedConsumerGroup
from local_cluster.handlers.authorized_operations import group_operations
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import OPERATIONS_NOT_REQUESTED
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest

    from local_cluster.wire.responses.groups import (
        ConsumerGroupDescribeAssignment,
        ConsumerGroupDescribeDescribedGroup,
        ConsumerGroupDescribeResponse,
        ConsumerGroupDescribeTopicPartitions,
    )

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


@handles(ApiKey.CONSUMER_GROUP_DESCRIBE, min_version=0, max_version=1)
def consumer_group_describe(
    broker: BrokerServices, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Awaitable[ConsumerGroupDescribeResponse]:
    """Describe each group by itself."""
    return _describe_all(broker, context, request)


async def _describe_all(
    broker: BrokerServices, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    return {
        "groups": [
            await _describe(broker, context, group_id, request.include_authorized_operations)
            for group_id in request.group_ids
        ]
    }


async def _describe(
    broker: BrokerServices, context: RequestContext, group_id: str, with_operations: bool
) -> ConsumerGroupDescribeDescribedGroup:
    if not broker.authorize(context, "DESCRIBE", "GROUP", group_id):
        group = DescribedConsumerGroup(ErrorCode.group_authorization_failed, group_id)
    elif not group_id:
        group = DescribedConsumerGroup(ErrorCode.invalid_group_id, group_id)
    else:
        try:
            group = await broker.groups.describe_consumer_group(group_id)
        except KafkaError as error:
            group = DescribedConsumerGroup(error.code, group_id)
    if not all(broker.authorize(context, "DESCRIBE", "TOPIC", n) for n in _shown(broker, group)):
        message = "The group has described topic(s) that the client is not authorized to describe."
        group = DescribedConsumerGroup(ErrorCode.topic_authorization_failed, group_id, message)
    operations = OPERATIONS_NOT_REQUESTED
    if with_operations and group.error is ErrorCode.none:
        operations = group_operations(broker, context, group_id)
    return {
        "error_code": group.error,
        "error_message": group.message,
        "group_id": group_id,
        "group_state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "assignor_name": group.assignor,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "rack_id": member.rack_id,
                "member_epoch": member.member_epoch,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "subscribed_topic_names": member.topic_names,
                "subscribed_topic_regex": member.topic_regex or None,
                "assignment": _assignment(broker, plain(member.assigned)),
                "target_assignment": _assignment(broker, group.targets.get(member.member_id, {})),
                "member_type": CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
            }
            for member in group.members
        ],
        "authorized_operations": operations,
    }


def _shown(broker: BrokerServices, group: DescribedConsumerGroup) -> set[str]:
    """Return the topics in the assignments and targets of the members."""
    assignments = [*(member.assigned for member in group.members), *group.targets.values()]
    ids = {topic_id for assignment in assignments for topic_id in assignment}
    return {topic.name for topic in map(broker.metadata.topic_by_id, ids) if topic is not None}


def _assignment(broker: BrokerServices, assignment: Assignment) -> ConsumerGroupDescribeAssignment:
    named: list[ConsumerGroupDescribeTopicPartitions] = []
    for topic_id, partitions in assignment.items():
        topic = broker.metadata.topic_by_id(topic_id)
        if topic is not None:
            named.append(
                {
                    "topic_id": topic_id,
                    "topic_name": topic.name,
                    "partitions": sorted(partitions),
                }
            )
    return {"topic_partitions": named}
