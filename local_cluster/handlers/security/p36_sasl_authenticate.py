"""SaslAuthenticate v0-v2 where no authentication is under way: ILLEGAL_SASL_STATE, as in Kafka.

A listener with SASL has its own handler of it per connection (server/secure/sasl_session.py).
v1 adds the lifetime of the session (KIP-368).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest

    from local_cluster.wire.responses.security import SaslAuthenticateResponse


@handles(ApiKey.SASL_AUTHENTICATE, min_version=0, max_version=2)
def sasl_authenticate(
    broker: BrokerServices, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """Refuse it on a connection that is authenticated, or that needs no SASL."""
    return {
        "error_code": ErrorCode.illegal_sasl_state,
        "error_message": "SaslAuthenticate request received after successful authentication",
        "auth_bytes": b"",
    }
