"""Kafka's error codes and the two families of errors on the wire.

`ErrorCode` is Kafka's table (numbers, names, retriable or not), which kio generates from Kafka's
source. `KafkaError` carries a code to the code that writes the response, or to a client's caller.
`PeerError` says that the peer broke the protocol: there is no response, the connection is closed.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

__all__ = ["DEFAULT_MESSAGES", "ErrorCode", "KafkaError", "PeerError"]

DEFAULT_MESSAGES: Final = {
    ErrorCode.invalid_request: (
        "This most likely occurs because of a request being malformed by the client library or the"
        " message was sent to an incompatible broker. See the broker logs for more details."
    ),
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.coordinator_load_in_progress: (
        "The coordinator is loading and hence can't process requests."
    ),
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
    ErrorCode.unknown_topic_or_partition: "This server does not host this topic-partition.",
    ErrorCode.unknown_topic_id: "This server does not host this topic ID.",
}
"""Kafka's message for an error that is raised without one; some responses carry it."""


class KafkaError(Exception):
    """A request that failed with a Kafka error code."""

    def __init__(self, code: ErrorCode | int, message: str = "") -> None:
        self.code = ErrorCode(code)
        self.message = message
        super().__init__(f"{self.code.name.upper()}{': ' + message if message else ''}")

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later, by Kafka's table."""
        return self.code.retriable


class PeerError(Exception):
    """The peer sent bytes that are not the protocol. The connection must be closed."""
