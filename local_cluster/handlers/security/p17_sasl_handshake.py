"""SaslHandshake v0-v1 where no authentication may begin: ILLEGAL_SASL_STATE, as in Kafka.

A listener with SASL has its own handler of it per connection (server/secure/sasl_session.py).
Version 0 is not advertised, and does not begin an authentication: messages without Kafka's header
would follow it. No client of Kafka 1.0 or newer needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

    from local_cluster.wire.responses.security import SaslHandshakeResponse


@handles(ApiKey.SASL_HANDSHAKE, min_version=0, max_version=1, advertised_min_version=1)
def sasl_handshake(
    broker: BrokerServices, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    """Refuse it on a connection that is authenticated, or that needs no SASL."""
    return {"error_code": ErrorCode.illegal_sasl_state, "mechanisms": ()}
