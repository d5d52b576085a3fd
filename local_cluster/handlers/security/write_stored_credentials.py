"""WRITE_STORED_CREDENTIALS v0 (of ours): set and delete SCRAM credentials by their keys, for links.

Bodies are in `scram_transfer`, rights in `credential_access`; each change is logged. A change names
the generation that it replaces. So a link never overwrites what somebody else has set meanwhile.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Mapping, Sequence

from local_cluster.client.auth.scram import HASHES
from local_cluster.client.auth.scram_transfer import (
    CREDENTIALS_MAX,
    CredentialChange,
    Refusal,
    decode_changes,
    encode_refusal,
    encode_results,
)
from local_cluster.controller.model.znode_json import UnreadableZnodeError
from local_cluster.controller.model.znode_paths import user_config_path
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.security.authentication.scram_credentials import (
    ITERATIONS_ACCEPTED,
    ScramCredential,
    credential_generation,
    decode_credential,
    encode_credential,
)
from local_cluster.security.authorization.credential_access import CredentialAccess
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError


@handles(
    ApiKey.WRITE_STORED_CREDENTIALS, min_version=0, max_version=0, raw=True, is_advertised=False
)
def write_stored_credentials(
    broker: BrokerServices, context: RequestContext, body: memoryview
) -> bytes | Awaitable[bytes]:
    """Change each credential by itself."""
    access = broker.credential_access
    if access is None:
        return encode_refusal(ErrorCode.security_disabled, "stored credentials need an authorizer")
    if not access.may_write(context):
        return encode_refusal(
            ErrorCode.cluster_authorization_failed, "needs TLS, and ALTER on the cluster"
        )
    try:
        changes = decode_changes(bytes(body))
    except ValueError as error:
        return encode_refusal(ErrorCode.invalid_request, str(error))
    if len(changes) > CREDENTIALS_MAX:
        return encode_refusal(ErrorCode.invalid_request, f"more than {CREDENTIALS_MAX} changes")
    if len({each.name for each in changes}) < len(changes):
        return encode_refusal(ErrorCode.duplicate_resource, "a credential is named twice")
    return _change_all(broker, access, context, changes)


async def _change_all(
    broker: BrokerServices,
    access: CredentialAccess,
    context: RequestContext,
    changes: Sequence[CredentialChange],
) -> bytes:
    by_user: dict[str, list[CredentialChange]] = {}
    for each in changes:
        by_user.setdefault(each.name.user, []).append(each)
    results: dict[CredentialChange, Refusal | None] = {}

    async def change_user(of_user: Sequence[CredentialChange]) -> None:
        # Both mechanisms lie in one znode, so they are written one after the other.
        for each in of_user:
            results[each] = await _change(broker, access, context, each)

    await asyncio.gather(*(change_user(of_user) for of_user in by_user.values()))
    return encode_results([results[each] for each in changes])


async def _change(
    broker: BrokerServices,
    access: CredentialAccess,
    context: RequestContext,
    change: CredentialChange,
) -> Refusal | None:
    user, mechanism = change.name
    try:
        if access.guards(user):
            access.note_guarded(context, user, is_read=False)
            raise KafkaError(
                ErrorCode.unacceptable_credential,
                "the user is one of brokers, services or administrators",
            )
        if not user:
            raise KafkaError(ErrorCode.unacceptable_credential, "Username must not be empty")
        if mechanism not in HASHES:
            raise KafkaError(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
        wanted = None if change.keys is None else _checked(mechanism, change.keys.text)
        await broker.control_plane.configs.alter_client(
            user_config_path(user), lambda stored: _planned(stored, mechanism, change, wanted)
        )
    except KafkaError as error:
        return Refusal(int(error.code), error.message)
    access.note_written(context, user)
    await broker.scram_users.reload(user)
    return None


def _planned(
    stored: Mapping[str, str],
    mechanism: str,
    change: CredentialChange,
    wanted: ScramCredential | None,
) -> dict[str, str]:
    """Return the configs of a user after a change. Raises KafkaError."""
    found = _stored(stored.get(mechanism), mechanism)
    is_done = found == (None if wanted is None else credential_generation(mechanism, wanted))
    if found != change.expected and not is_done:
        raise KafkaError(
            ErrorCode.invalid_update_version, "somebody else has changed the credential"
        )
    planned = dict(stored)
    if wanted is not None:
        planned[mechanism] = encode_credential(wanted)
    else:
        planned.pop(mechanism, None)
    return planned


def _stored(text: str | None, mechanism: str) -> str | None:
    """Return the generation of what ZooKeeper has; one that is unreadable fits no expectation."""
    if text is None:
        return None
    try:
        return credential_generation(mechanism, decode_credential(text))
    except UnreadableZnodeError:
        return ""


def _checked(mechanism: str, text: str) -> ScramCredential:
    """Read keys of another cluster. Raises KafkaError, which repeats nothing of them."""
    try:
        credential = decode_credential(text)
    except UnreadableZnodeError:
        raise KafkaError(ErrorCode.unacceptable_credential, "not a SCRAM credential") from None
    size = hashlib.new(HASHES[mechanism]).digest_size
    if not credential.salt or {len(credential.stored_key), len(credential.server_key)} != {size}:
        raise KafkaError(ErrorCode.unacceptable_credential, "keys of another mechanism")
    if credential.iterations not in ITERATIONS_ACCEPTED:
        few = credential.iterations < ITERATIONS_ACCEPTED.start
        words = "few" if few else "many"
        raise KafkaError(ErrorCode.unacceptable_credential, f"Too {words} iterations")
    return credential
