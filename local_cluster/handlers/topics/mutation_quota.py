"""The quota of mutations (KIP-599) in the handlers of topics."""

from __future__ import annotations

from typing import TypeVar

from local_cluster.handlers.deferred import ThrottledBody
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.quotas.mutation_tokens import MutationCharge
from local_cluster.wire.messages import Fields

Response = TypeVar("Response", bound=Fields)


def mutation_charge(
    broker: BrokerServices, context: RequestContext, *, strict_since: int
) -> MutationCharge:
    """Return the charge of a request, strict from a version of its API on."""
    return broker.quotas.mutations.charge(
        context.principal,
        context.client_id,
        is_strict=context.api_version >= strict_since,
        now_ms=broker.clock.monotonic_ms,
    )


def with_throttle_time(response: Response, charge: MutationCharge) -> Response | ThrottledBody:
    """Return the response of a request, with the time for which its client has to wait."""
    throttle_ms = charge.throttle_ms()
    if not throttle_ms:
        return response
    return ThrottledBody({**response, "throttle_time": throttle_ms}, throttle_ms)
