"""The quota of request time (KIP-124): the time of handlers, in percent of the event loop.

As in Kafka, requests between brokers do not count. Two APIs differ from the others:

- A Fetch counts itself before its response is made, because a throttled consumer gets no records.
- A Produce is throttled for what its client did before, and counted afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from local_cluster.handlers.data.throttles import PERCENT_PER_NS
from local_cluster.handlers.deferred import PlainBody, RecordsBody, ThrottledBody
from local_cluster.handlers.registry import Reply
from local_cluster.handlers.services import RequestContext
from local_cluster.quotas.client_rates import ClientRates
from local_cluster.wire.api import ApiKey
from local_cluster.wire.messages import load_schema

NOT_COUNTED: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.CLUSTER_DELTA,
        ApiKey.HAND_OVER,
        ApiKey.OFFSET_TIMES,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    }
)
THROTTLE_TIME_FIRST_SINCE: Final = {
    ApiKey.LIST_OFFSETS: 2,
    ApiKey.METADATA: 3,
    ApiKey.OFFSET_COMMIT: 3,
}
"""Of responses that are encoded by hand: the version from which the throttle time comes first."""
THROTTLE_TIME: Final = "throttle_time"
_INT32: Final = Struct(">i")


class RequestTime:
    """Counts the requests of connections."""

    def __init__(self, rates: ClientRates, now_ms: Callable[[], int]) -> None:
        self.rates = rates
        self._now_ms = now_ms

    def count(self, context: RequestContext, reply: Reply, busy_ns: int) -> Reply:
        """Count a request whose response is ready; return the response, throttled if need be."""
        if context.api_key in NOT_COUNTED:
            return reply
        throttle_ms = self.rates.record(
            context.principal, context.client_id, busy_ns * PERCENT_PER_NS, self._now_ms()
        )
        if not throttle_ms or context.api_key == ApiKey.PRODUCE:
            return reply
        body: Any = reply
        if isinstance(reply, ThrottledBody):
            if reply.throttle_ms >= throttle_ms:
                return reply
            body = reply.body
        return ThrottledBody(_throttled(context, body, throttle_ms), throttle_ms)


def _throttled(
    context: RequestContext, body: Any, throttle_ms: int
) -> PlainBody | RecordsBody | None:
    """Return a response with its throttle time, if its version has one."""
    if isinstance(body, Mapping):
        if _has_throttle_time(context.api_key, context.api_version):
            return {**body, THROTTLE_TIME: throttle_ms}
        return body
    since = THROTTLE_TIME_FIRST_SINCE.get(ApiKey(context.api_key))
    if isinstance(body, bytes) and since is not None and context.api_version >= since:
        return _INT32.pack(throttle_ms) + body[_INT32.size :]
    plain: PlainBody | RecordsBody | None = body
    return plain


@lru_cache(maxsize=512)
def _has_throttle_time(api_key: int, version: int) -> bool:
    schema: Any = load_schema(api_key, version, True)
    return any(field.name == THROTTLE_TIME for field in fields(schema))
