"""Reads and sets SCRAM credentials as clusters of ours keep them, for links."""

from __future__ import annotations

from collections.abc import Sequence

from local_cluster.client.auth.scram_transfer import (
    CREDENTIALS_MAX,
    CredentialChange,
    ReadRequest,
    Refusal,
    StoredCredential,
    StoredCredentials,
    decode_results,
    decode_stored,
    encode_changes,
    encode_read,
)
from local_cluster.client.calls import ClusterCalls
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import CredentialName
from local_cluster.wire.errors import ErrorCode, KafkaError


async def read_stored_credentials(
    client: ClusterCalls, users: Sequence[str] | None = None
) -> StoredCredentials:
    """Describe the credentials of users, None for all, as the controller knows them.

    Raises KafkaError: unsupported_version if the cluster is not ours, or the listener has no TLS.
    """
    return await _read(client, ReadRequest(None if users is None else tuple(users), False))


async def read_keys(
    client: ClusterCalls, users: Sequence[str]
) -> dict[CredentialName, StoredCredential]:
    """Return the credentials of users with their keys. Raises KafkaError."""
    found: dict[CredentialName, StoredCredential] = {}
    for start in range(0, len(users), CREDENTIALS_MAX):
        request = ReadRequest(tuple(users[start : start + CREDENTIALS_MAX]), True)
        found |= (await _read(client, request)).credentials
    return found


async def write_stored_credentials(
    client: ClusterCalls, changes: Sequence[CredentialChange]
) -> list[KafkaError | None]:
    """Change each credential by itself; return the error of each. Raises KafkaError."""
    results: list[KafkaError | None] = []
    for start in range(0, len(changes), CREDENTIALS_MAX):
        part = changes[start : start + CREDENTIALS_MAX]
        body = encode_changes(part)
        response = await client.call_controller_raw(ApiKey.WRITE_STORED_CREDENTIALS, body)
        try:
            answers = decode_results(response)
        except ValueError as error:
            raise KafkaError(ErrorCode.network_exception, str(error)) from None
        if isinstance(answers, Refusal):
            raise _error(answers)
        results += [None if each is None else _error(each) for each in answers]
        if len(results) != start + len(part):
            raise KafkaError(ErrorCode.network_exception, "not a result for each credential")
    return results


async def _read(client: ClusterCalls, request: ReadRequest) -> StoredCredentials:
    body = encode_read(request)
    response = await client.call_controller_raw(ApiKey.READ_STORED_CREDENTIALS, body)
    try:
        found = decode_stored(response)
    except ValueError as error:
        raise KafkaError(ErrorCode.network_exception, str(error)) from None
    if isinstance(found, Refusal):
        raise _error(found)
    return found


def _error(refusal: Refusal) -> KafkaError:
    try:
        code = ErrorCode(refusal.error)
    except ValueError:  # of a newer version
        code = ErrorCode.unknown_server_error
    return KafkaError(code, refusal.message)
