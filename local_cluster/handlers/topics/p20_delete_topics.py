"""DeleteTopics v1-v6: the controller only, elsewhere NOT_CONTROLLER for every topic.

Version notes: v5 error messages; v6 topics by id. The answer waits until the topics are gone from
every broker that holds a replica; REQUEST_TIMED_OUT where one is away, and the deletion goes on
when it is back.
"""

from __future__ import annotations

import uuid
from typing import Any

from local_cluster.controller.model.topic_requests import repeated
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import KAFKAS_WORDS, ErrorCode, KafkaError

Asked = tuple[str | None, uuid.UUID | None]


@handles(ApiKey.DELETE_TOPICS, min_version=1, max_version=6)
def delete_topics(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Delete each topic that may be deleted."""
    return _delete(broker, context, request)


async def _delete(broker: BrokerServices, context: RequestContext, request: Any) -> dict[str, Any]:
    if context.api_version >= 6:
        asked: list[Asked] = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        asked = [(name, None) for name in request.topic_names]
    errors: dict[Asked, KafkaError | None] = {
        entry: KafkaError(
            ErrorCode.invalid_request,
            "Duplicate topic name." if entry[1] is None else "Duplicate topic id.",
        )
        for entry in repeated(asked)
    }
    names: dict[Asked, str] = {}
    for entry in asked:
        if entry in errors:
            continue
        resolved = _resolve(broker, context, entry)
        if isinstance(resolved, KafkaError):
            errors[entry] = resolved
        elif resolved in names.values():
            errors[entry] = KafkaError(ErrorCode.invalid_request, "the topic is named twice")
        else:
            names[entry] = resolved
    ids = {n: topic.topic_id for n in names.values() if (topic := broker.metadata.topics.get(n))}
    try:
        results = await broker.control_plane.delete_topics(
            tuple(names.values()), timeout_ms=messages.ms(request.timeout)
        )
        errors |= {entry: results[name] for entry, name in names.items()}
    except KafkaError as error:
        errors |= dict.fromkeys(names, error)
    return {
        "responses": [
            {
                "name": names.get(entry, entry[0]),
                "topic_id": ids.get(names.get(entry, ""), entry[1]),
                "error_code": ErrorCode.none if error is None else error.code,
                "error_message": _words(error),
            }
            for entry, error in errors.items()
        ],
    }


def _words(error: KafkaError | None) -> str | None:
    return None if error is None else error.message or KAFKAS_WORDS.get(error.code)


def _resolve(broker: BrokerServices, context: RequestContext, asked: Asked) -> str | KafkaError:
    """The topic's name, or why not."""
    name, topic_id = asked
    if (name is None) == (topic_id is None):
        return KafkaError(
            ErrorCode.invalid_request,
            "Neither topic name nor id were specified."
            if name is None
            else "You may not specify both topic name and topic id.",
        )
    if not broker.settings.config_bool("delete.topic.enable", True):
        supported = context.api_version >= 3
        return KafkaError(
            ErrorCode.topic_deletion_disabled if supported else ErrorCode.invalid_request
        )
    if name is None:
        assert topic_id is not None
        topic = broker.metadata.topic_by_id(topic_id)
        if topic is None:
            return KafkaError(ErrorCode.unknown_topic_id)
        name = topic.name
    if not broker.authorize(context, "DELETE", "TOPIC", name):
        return KafkaError(ErrorCode.topic_authorization_failed)
    return name
