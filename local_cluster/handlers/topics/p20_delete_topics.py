"""DeleteTopics v1-v6: the controller only; another broker returns NOT_CONTROLLER for each topic.

v5 has error messages, v6 topic ids. The response waits until each broker with a replica has deleted
the topics. If one is down it is REQUEST_TIMED_OUT, and the deletion continues when that broker
returns.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final, cast

from local_cluster.controller.model.topic_requests import repeated
from local_cluster.handlers.deferred import ThrottledBody
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.handlers.topics.mutation_quota import mutation_charge, with_throttle_time
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import DEFAULT_MESSAGES, ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.delete_topics.v5 import request as v5
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest

    from local_cluster.wire.responses.topics import DeleteTopicsResponse

TOPIC_IDS_SINCE: Final = 6
DELETION_DISABLED_SINCE: Final = 3
QUOTA_STRICT_SINCE: Final = 5
"""From this version on, above the quota of mutations nothing is deleted."""

TopicKey = tuple[str | None, uuid.UUID | None]
"""A topic as the request names it: by name or by id."""


@handles(ApiKey.DELETE_TOPICS, min_version=1, max_version=6)
def delete_topics(
    broker: BrokerServices, context: RequestContext, request: DeleteTopicsRequest
) -> Awaitable[DeleteTopicsResponse | ThrottledBody]:
    """Delete each topic that may be deleted."""
    keys: list[TopicKey]
    if context.api_version >= TOPIC_IDS_SINCE:
        keys = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        keys = [(name, None) for name in cast("v5.DeleteTopicsRequest", request).topic_names]
    return _delete(broker, context, keys, messages.ms(request.timeout))


async def _delete(
    broker: BrokerServices, context: RequestContext, keys: Sequence[TopicKey], timeout_ms: int
) -> DeleteTopicsResponse | ThrottledBody:
    charge = mutation_charge(broker, context, strict_since=QUOTA_STRICT_SINCE)
    errors: dict[TopicKey, KafkaError | None] = {
        key: KafkaError(
            ErrorCode.invalid_request,
            "Duplicate topic name." if key[1] is None else "Duplicate topic id.",
        )
        for key in repeated(keys)
    }
    names: dict[TopicKey, str] = {}
    for key in keys:
        if key in errors:
            continue
        resolved = _resolve(broker, context, key)
        if isinstance(resolved, KafkaError):
            errors[key] = resolved
        elif resolved in names.values():
            errors[key] = KafkaError(ErrorCode.invalid_request, "the topic is named twice")
        else:
            names[key] = resolved
    ids = {n: topic.topic_id for n in names.values() if (topic := broker.metadata.topics.get(n))}
    try:
        results = await broker.control_plane.delete_topics(
            tuple(names.values()), timeout_ms=timeout_ms, charge=charge.take
        )
        errors |= {key: results[name] for key, name in names.items()}
    except KafkaError as error:
        errors |= dict.fromkeys(names, error)
    response: DeleteTopicsResponse = {
        "responses": [
            {
                "name": names.get(key, _visible_name(broker, context, key)),
                "topic_id": ids.get(names.get(key, ""), key[1]),
                "error_code": ErrorCode.none if error is None else error.code,
                "error_message": _message(error),
            }
            for key, error in errors.items()
        ],
    }
    return with_throttle_time(response, charge)


def _visible_name(broker: BrokerServices, context: RequestContext, key: TopicKey) -> str | None:
    """Return the name of a topic that was not deleted, if the client may know it."""
    name, topic_id = key
    if name is not None or topic_id is None:
        return name
    topic = broker.metadata.topic_by_id(topic_id)
    if topic is None or not broker.may(context, "DESCRIBE", "TOPIC", topic.name):
        return None
    return topic.name


def _message(error: KafkaError | None) -> str | None:
    return None if error is None else error.message or DEFAULT_MESSAGES.get(error.code)


def _resolve(broker: BrokerServices, context: RequestContext, key: TopicKey) -> str | KafkaError:
    """Return the topic's name, or why it may not be deleted."""
    name, topic_id = key
    if (name is None) == (topic_id is None):
        return KafkaError(
            ErrorCode.invalid_request,
            "Neither topic name nor id were specified."
            if name is None
            else "You may not specify both topic name and topic id.",
        )
    if not broker.settings.config_bool("delete.topic.enable", True):
        known = context.api_version >= DELETION_DISABLED_SINCE
        return KafkaError(ErrorCode.topic_deletion_disabled if known else ErrorCode.invalid_request)
    if name is None:
        assert topic_id is not None
        topic = broker.metadata.topic_by_id(topic_id)
        if topic is None:
            return KafkaError(ErrorCode.unknown_topic_id)
        name = topic.name
    if not broker.holds_for_topic(context, "DELETE", name) and not (
        broker.authorize(context, "DELETE", "TOPIC", name)
    ):
        if name not in broker.metadata.topics and broker.may(context, "DESCRIBE", "TOPIC", name):
            return KafkaError(ErrorCode.unknown_topic_or_partition)
        return KafkaError(ErrorCode.topic_authorization_failed)
    return name
