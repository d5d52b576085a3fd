"""How long a producer or consumer has to wait because of its quotas (KIP-13)."""

from __future__ import annotations

from typing import Final

from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.constants import ACKS_NONE

PERCENT_PER_NS: Final = 100 / 1e9
"""Request time is in percent of a second."""


def produce_throttle_ms(broker: BrokerServices, context: RequestContext, acks: int) -> int:
    """Count a Produce request whose response is ready; return the wait, 0 for none."""
    size, time = broker.quotas.produce, broker.quotas.request
    if not size.is_used and not time.is_used:
        return 0
    principal, client_id = context.principal, context.client_id
    now_ms = broker.clock.monotonic_ms()
    throttle_ms = 0
    if size.is_used:
        throttle_ms = size.record(principal, client_id, context.request_bytes, now_ms)
    if time.is_used and acks != ACKS_NONE:
        throttle_ms = max(throttle_ms, time.wait_ms(principal, client_id, now_ms))
    return throttle_ms


def fetch_is_limited(broker: BrokerServices) -> bool:
    """Return whether any consumer has a quota."""
    return broker.quotas.fetch.is_used or broker.quotas.request.is_used


def fetch_throttle_ms(
    broker: BrokerServices, context: RequestContext, size_bytes: int, busy_ns: int
) -> int:
    """Count the response to a consumer, and the time it took; return the wait, 0 for none.

    A consumer that has to wait gets nothing, so no bytes are counted then.
    """
    size, time = broker.quotas.fetch, broker.quotas.request
    principal, client_id = context.principal, context.client_id
    now_ms = broker.clock.monotonic_ms()
    throttle_ms = 0
    if time.is_used:
        throttle_ms = time.record(principal, client_id, busy_ns * PERCENT_PER_NS, now_ms)
    if size.is_used:
        throttle_ms = max(throttle_ms, size.record(principal, client_id, size_bytes, now_ms))
        if throttle_ms:
            size.take_back(principal, client_id, size_bytes, now_ms)
    return throttle_ms


def fetch_bytes_max(broker: BrokerServices, context: RequestContext, bytes_max: int) -> int:
    """Return how many bytes a response may have: more would always be above the quota."""
    quota = broker.quotas.fetch
    if not quota.is_used:
        return bytes_max
    most = quota.value_max(context.principal, context.client_id, broker.clock.monotonic_ms())
    return bytes_max if most is None else min(bytes_max, int(most))
