"""READ_STORED_CREDENTIALS v0 (of ours): SCRAM credentials as this cluster keeps them, for links.

Kafka lacks it: DescribeUserScramCredentials returns no keys. Bodies are in `scram_transfer`. Who
may read is in `credential_access`; each release of keys is logged. Keys prove a password at logins
and are not the password.
"""

from __future__ import annotations

from collections.abc import Iterable

from local_cluster.client.auth.scram_transfer import (
    CREDENTIALS_MAX,
    StoredCredential,
    StoredCredentials,
    StoredKeys,
    decode_read,
    encode_refusal,
    encode_stored,
)
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.security.authentication.scram_credentials import (
    credential_generation,
    encode_credential,
)
from local_cluster.security.authorization.credential_access import CredentialAccess
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import CredentialName
from local_cluster.wire.errors import ErrorCode

NO_AUTHORIZER = "stored credentials need an authorizer"


@handles(
    ApiKey.READ_STORED_CREDENTIALS, min_version=0, max_version=0, raw=True, is_advertised=False
)
def read_stored_credentials(
    broker: BrokerServices, context: RequestContext, body: memoryview
) -> bytes:
    """Describe the credentials of users, or give their keys to a reader."""
    access = broker.credential_access
    if access is None:
        return encode_refusal(ErrorCode.security_disabled, NO_AUTHORIZER)
    if not access.may_describe(context):
        return encode_refusal(
            ErrorCode.cluster_authorization_failed, "needs TLS, and DESCRIBE on the cluster"
        )
    try:
        asked = decode_read(bytes(body))
    except ValueError as error:
        return encode_refusal(ErrorCode.invalid_request, str(error))
    users = broker.scram_users.users if asked.users is None else asked.users
    if not asked.with_keys:
        return _described(broker, access, users, {})
    if asked.users is None or len(asked.users) > CREDENTIALS_MAX:
        return encode_refusal(
            ErrorCode.invalid_request, f"keys are given for at most {CREDENTIALS_MAX} named users"
        )
    if not access.may_read(context):
        return encode_refusal(
            ErrorCode.cluster_authorization_failed,
            "keys are only for principals in heliograph.scram.credential.readers",
        )
    keys: dict[CredentialName, StoredKeys] = {}
    for user in dict.fromkeys(asked.users):
        credentials = broker.scram_users.users.get(user, {})
        if access.guards(user):
            access.note_guarded(context, user, is_read=True)
        elif credentials:
            access.note_read(context, user)
            for mechanism, credential in credentials.items():
                name = CredentialName(user, mechanism)
                keys[name] = StoredKeys(encode_credential(credential))
    return _described(broker, access, users, keys)


def _described(
    broker: BrokerServices,
    access: CredentialAccess,
    users: Iterable[str],
    keys: dict[CredentialName, StoredKeys],
) -> bytes:
    found = {
        CredentialName(user, mechanism): StoredCredential(
            credential_generation(mechanism, credential),
            keys.get(CredentialName(user, mechanism)),
        )
        for user in users
        for mechanism, credential in broker.scram_users.users.get(user, {}).items()
    }
    guarded = frozenset(user for user in users if access.guards(user))
    return encode_stored(StoredCredentials(found, guarded))
