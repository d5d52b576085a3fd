"""AlterUserScramCredentials v0 (KIP-554): set and delete credentials, one change per user.

Any broker writes to ZooKeeper, as with configs. The password never comes here: the client sends it
salted, and only the keys that prove it are stored. As in Kafka 4.4 a user that is named twice is
DUPLICATE_RESOURCE, whatever its mechanisms.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from local_cluster.controller.model.znode_paths import user_config_path
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.security.authentication.scram_credentials import (
    ITERATIONS_ACCEPTED,
    credential_of_salted,
    encode_credential,
)
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import SCRAM_MECHANISMS
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kio.schema.alter_user_scram_credentials.v0.request import (
        AlterUserScramCredentialsRequest,
        ScramCredentialUpsertion,
    )

    from local_cluster.wire.responses.security import (
        AlterUserScramCredentialsResponse,
        AlterUserScramCredentialsResult,
    )

USERS_MAX: Final = 1_000
"""Of one request."""


@handles(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, min_version=0, max_version=0)
def alter_user_scram_credentials(
    broker: BrokerServices, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> Awaitable[AlterUserScramCredentialsResponse]:
    """Change each user by itself."""
    allowed = broker.authorize(context, "ALTER", "CLUSTER", "kafka-cluster")
    changes = [_Change(each.name, each.mechanism, None) for each in request.deletions]
    changes += [_Change(each.name, each.mechanism, each) for each in request.upsertions]
    return _alter_all(broker, changes, allowed=allowed)


class _Change(NamedTuple):
    name: str
    mechanism: int
    upsertion: ScramCredentialUpsertion | None
    """None deletes."""


async def _alter_all(
    broker: BrokerServices, changes: Sequence[_Change], *, allowed: bool
) -> AlterUserScramCredentialsResponse:
    counts = Counter(each.name for each in changes)
    by_user = {each.name: each for each in changes}
    refused: KafkaError | None = None
    if not allowed:
        refused = KafkaError(ErrorCode.cluster_authorization_failed)
    elif len(by_user) > USERS_MAX:
        refused = KafkaError(ErrorCode.invalid_request, f"more than {USERS_MAX} users")
    return {
        "results": await asyncio.gather(
            *(_alter(broker, each, counts[name], refused) for name, each in by_user.items())
        )
    }


async def _alter(
    broker: BrokerServices, change: _Change, count: int, refused: KafkaError | None
) -> AlterUserScramCredentialsResult:
    try:
        if refused is not None:
            raise refused
        if count > 1:
            raise KafkaError(
                ErrorCode.duplicate_resource,
                "A user credential cannot be altered twice in the same request",
            )
        if not change.name:
            raise KafkaError(ErrorCode.unacceptable_credential, "Username must not be empty")
        mechanism = SCRAM_MECHANISMS.get(change.mechanism)
        if mechanism is None:
            raise KafkaError(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
        credential = _credential(mechanism, change.upsertion)

        def plan(stored: Mapping[str, str]) -> dict[str, str]:
            wanted = dict(stored)
            if credential is not None:
                wanted[mechanism] = credential
            elif wanted.pop(mechanism, None) is None:
                raise KafkaError(
                    ErrorCode.resource_not_found,
                    "Attempt to delete a user credential that does not exist",
                )
            return wanted

        await broker.control_plane.configs.alter_client(user_config_path(change.name), plan)
    except KafkaError as error:
        return {"user": change.name, "error_code": error.code, "error_message": error.message}
    await broker.scram_users.reload(change.name)
    return {"user": change.name, "error_code": ErrorCode.none, "error_message": None}


def _credential(mechanism: str, upsertion: ScramCredentialUpsertion | None) -> str | None:
    """Return what is stored, None for a deletion. Raises KafkaError."""
    if upsertion is None:
        return None
    if upsertion.iterations not in ITERATIONS_ACCEPTED:
        size = "few" if upsertion.iterations < ITERATIONS_ACCEPTED.start else "many"
        raise KafkaError(ErrorCode.unacceptable_credential, f"Too {size} iterations")
    return encode_credential(
        credential_of_salted(
            mechanism, upsertion.salt, upsertion.salted_password, upsertion.iterations
        )
    )
