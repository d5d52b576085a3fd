"""SCRAM credentials as links read and set them: who may, over what, and of which users."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import pytest

from local_cluster.client.auth.scram_transfer import (
    CREDENTIALS_MAX,
    CredentialChange,
    ReadRequest,
    Refusal,
    StoredCredentials,
    StoredKeys,
    decode_results,
    decode_stored,
    encode_changes,
    encode_read,
)
from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.controller.model.znode_paths import user_config_path
from local_cluster.handlers.cluster.p18_api_versions import api_versions
from local_cluster.handlers.security.p51_alter_user_scram_credentials import (
    alter_user_scram_credentials,
)
from local_cluster.handlers.security.read_stored_credentials import read_stored_credentials
from local_cluster.handlers.security.write_stored_credentials import write_stored_credentials
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.security.authentication.listener_security import SaslSettings, TlsSettings
from local_cluster.security.authentication.scram_credentials import (
    credential_generation,
    credential_of,
    encode_credential,
)
from local_cluster.security.authentication.user_store import UserStore
from local_cluster.security.authorization.acl_image import AclImage
from local_cluster.security.authorization.authorizer import Authorizer
from local_cluster.security.authorization.credential_access import CredentialAccess
from local_cluster.security.authorization.policy import policy_of
from local_cluster.settings import Listener
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    CredentialName,
    PatternType,
    Permission,
    ResourceType,
)
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper
from tests.unit.local_cluster.handlers.admin_broker import Broker

SHA_512: Final = "SCRAM-SHA-512"
SHA_256: Final = "SCRAM-SHA-256"
READ, WRITE = ApiKey.READ_STORED_CREDENTIALS, ApiKey.WRITE_STORED_CREDENTIALS
ALICE = CredentialName("alice", SHA_512)
MIRROR, ADMIN, DESCRIBER = "User:mirror", "User:admin", "User:describer"
SALT = b"twenty random bytes."
FIRST, SECOND = (credential_of(SHA_512, "pw", SALT + each) for each in (b"1", b"2"))
KEYS, NEXT_KEYS = (StoredKeys(encode_credential(each)) for each in (FIRST, SECOND))
GENERATION, NEXT = (credential_generation(SHA_512, each) for each in (FIRST, SECOND))
Answer = StoredCredentials | Refusal
Results = list[Refusal | None] | Refusal


def on_cluster(principal: str, operation: AclOperation) -> Acl:
    kind, literal = ResourceType.CLUSTER, PatternType.LITERAL
    return Acl(kind, CLUSTER_NAME, literal, principal, "*", operation, Permission.ALLOW)


class Side:
    """A broker with an authorizer; TLS on one of its listeners."""

    def __init__(self, *, is_dry_run: bool = False) -> None:
        broker = Broker(FakeZooKeeper())
        double: Any = broker
        self.broker: Any = double
        own = SaslSettings(mechanisms=(SHA_512,), users={"inner": Secret(env="X")})
        listeners = (
            Listener(name="PLAIN", host="h", port=0, security_protocol="SASL_PLAINTEXT", sasl=own),
            Listener(
                name="TLS",
                host="h",
                port=0,
                security_protocol="SASL_SSL",
                tls=TlsSettings(keystore_file="k"),
                sasl=SaslSettings(mechanisms=(SHA_512,)),
            ),
        )
        settings = replace(
            broker.settings,
            listeners=listeners,
            inter_broker_listener="PLAIN",
            inter_broker_security=ClientSecurity(
                protocol="SASL_PLAINTEXT", mechanism=SHA_512, username="u", password=Secret(env="X")
            ),
            broker_principals=("User:broker",),
            internal_topic_writers={"heliograph-": ("User:service",)},
            config={
                "super.users": ADMIN,
                "heliograph.scram.credential.readers": f"{MIRROR};User:ANONYMOUS",
            },
        )
        policy = policy_of(settings.config, settings.broker_principals)
        self.authorizer = Authorizer(policy, is_dry_run=is_dry_run, on_change=lambda: None)
        acls = [
            on_cluster(MIRROR, AclOperation.ALTER),
            on_cluster("User:ANONYMOUS", AclOperation.ALTER),
            on_cluster(DESCRIBER, AclOperation.DESCRIBE),
        ]
        self.authorizer.set_image(AclImage.of(acls))
        double.credential_access = CredentialAccess(settings, self.authorizer)
        double.authorize = self.authorizer.authorize
        double.scram_users = UserStore(broker.member.coordination)

    def context(self, api: ApiKey, principal: str, listener: str) -> RequestContext:
        return RequestContext(api, 0, 1, "c", principal, listener, "::1", 1)

    async def read(
        self,
        *users: str,
        keys: bool = True,
        principal: str = MIRROR,
        listener: str = "TLS",
    ) -> Answer:
        body = memoryview(encode_read(ReadRequest(users or None, keys)))
        context = self.context(READ, principal, listener)
        answer = read_stored_credentials(cast(BrokerServices, self.broker), context, body)
        assert isinstance(answer, bytes)
        return decode_stored(answer)

    async def write(
        self,
        *changes: CredentialChange,
        principal: str = MIRROR,
        listener: str = "TLS",
    ) -> Results:
        body = memoryview(encode_changes(changes))
        context = self.context(WRITE, principal, listener)
        answer: Any = write_stored_credentials(cast(BrokerServices, self.broker), context, body)
        return decode_results(answer if isinstance(answer, bytes) else await answer)

    async def stored(self) -> str | None:
        found = await self.broker.member.coordination.read(user_config_path("alice"))
        return None if found is None else found.payload.decode()


@pytest.fixture
async def side() -> AsyncIterator[Side]:
    made = Side()
    await made.broker.control_plane.start()
    await made.broker.scram_users.start()
    yield made
    await made.broker.scram_users.stop()
    await made.broker.control_plane.stop()


@pytest.fixture
def audit(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="kafka.authorizer.logger")
    return caplog


def codes(results: Results) -> Sequence[int]:
    assert isinstance(results, list)
    return [0 if each is None else each.error for each in results]


def change(
    keys: StoredKeys | None, expected: str | None, name: CredentialName = ALICE
) -> CredentialChange:
    return CredentialChange(name, expected, keys)


async def test_a_credential_is_set_read_replaced_and_deleted(
    side: Side, audit: pytest.LogCaptureFixture
) -> None:
    assert codes(await side.write(change(KEYS, None))) == [0]
    found = await side.read("alice")
    assert isinstance(found, StoredCredentials)
    assert found.credentials[ALICE] == (GENERATION, KEYS)
    described = await side.read(keys=False, principal=DESCRIBER)
    assert isinstance(described, StoredCredentials)
    assert described.credentials == {ALICE: (GENERATION, None)}
    assert codes(await side.write(change(NEXT_KEYS, GENERATION))) == [0]
    assert codes(await side.write(change(None, NEXT))) == [0]
    assert await side.read(keys=False) == StoredCredentials({}, frozenset())
    uses = [line for line in audit.messages if line.startswith("Allowed: principal 'User:mirror'")]
    assert [line.partition(": ")[2].partition("client id 'c': ")[2] for line in uses] == [
        "WRITE_KEYS on SCRAM_CREDENTIAL 'alice' for WRITE_STORED_CREDENTIALS",
        "READ_KEYS on SCRAM_CREDENTIAL 'alice' for READ_STORED_CREDENTIALS",
        "WRITE_KEYS on SCRAM_CREDENTIAL 'alice' for WRITE_STORED_CREDENTIALS",
        "WRITE_KEYS on SCRAM_CREDENTIAL 'alice' for WRITE_STORED_CREDENTIALS",
    ]
    for each in (KEYS, NEXT_KEYS):
        assert each.text not in audit.text


async def test_what_somebody_else_has_set_is_not_overwritten(side: Side) -> None:
    assert codes(await side.write(change(KEYS, None))) == [0]
    conflict = ErrorCode.invalid_update_version
    for expected in (None, "another", NEXT):
        assert codes(await side.write(change(NEXT_KEYS, expected))) == [conflict]
        assert codes(await side.write(change(None, expected))) == [conflict]
    # A change whose response was lost is done when it is repeated.
    assert codes(await side.write(change(KEYS, None))) == [0]
    assert KEYS.text in (await side.stored() or "")


REFUSED = ErrorCode.cluster_authorization_failed


@pytest.mark.parametrize(
    ("principal", "listener", "keys", "is_allowed"),
    [
        (MIRROR, "TLS", True, True),
        (MIRROR, "PLAIN", True, False),
        (MIRROR, "PLAIN", False, False),
        # Neither a super user nor an ACL gets keys, and ANONYMOUS is no reader.
        (ADMIN, "TLS", True, False),
        (ADMIN, "TLS", False, True),
        (DESCRIBER, "TLS", True, False),
        (DESCRIBER, "TLS", False, True),
        ("User:ANONYMOUS", "TLS", True, False),
        ("User:nobody", "TLS", False, False),
    ],
)
async def test_who_reads(
    side: Side,
    audit: pytest.LogCaptureFixture,
    principal: str,
    listener: str,
    keys: bool,
    is_allowed: bool,
) -> None:
    found = await side.read("alice", keys=keys, principal=principal, listener=listener)
    if is_allowed:
        assert isinstance(found, StoredCredentials)
        assert side.authorizer.denials.counts == {}
    else:
        assert isinstance(found, Refusal)
        assert found.error == REFUSED
        assert sum(side.authorizer.denials.counts.values()) == 1
        assert f"Denied: principal {principal!r}" in audit.text


@pytest.mark.parametrize(
    ("principal", "listener", "is_allowed"),
    [
        (MIRROR, "TLS", True),
        (ADMIN, "TLS", True),
        (ADMIN, "PLAIN", False),
        (DESCRIBER, "TLS", False),
        ("User:nobody", "TLS", False),
    ],
)
async def test_who_sets(side: Side, principal: str, listener: str, is_allowed: bool) -> None:
    results = await side.write(change(KEYS, None), principal=principal, listener=listener)
    if is_allowed:
        assert codes(results) == [0]
    else:
        assert isinstance(results, Refusal)
        assert results.error == REFUSED
        assert await side.stored() is None


async def test_a_dry_run_gives_nobody_keys() -> None:
    side = Side(is_dry_run=True)
    for principal, listener in ((DESCRIBER, "TLS"), (MIRROR, "PLAIN")):
        found = await side.read("alice", principal=principal, listener=listener)
        assert isinstance(found, Refusal)


async def test_users_of_brokers_services_and_administrators_are_never_touched(
    side: Side, audit: pytest.LogCaptureFixture
) -> None:
    guarded = ("admin", "broker", "inner", "mirror", "service")
    for user in guarded:
        # The owner himself sets them by Kafka's request.
        fields = {
            "deletions": [],
            "upsertions": [
                {
                    "name": user,
                    "mechanism": 2,
                    "iterations": 4096,
                    "salt": SALT,
                    "salted_password": b"s" * 64,
                }
            ],
        }
        body = messages.encode_request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, fields)
        request = messages.decode_request(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, memoryview(body), 0
        )
        context = side.context(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ADMIN, "TLS")
        reply: Any = alter_user_scram_credentials(side.broker, context, request)
        done = await reply
        assert [each["error_code"] for each in done["results"]] == [0]
    found = await side.read(*guarded, "alice")
    assert isinstance(found, StoredCredentials)
    assert found.guarded == set(guarded)
    assert {name.user for name in found.credentials} == set(guarded)
    assert [each.keys for each in found.credentials.values()] == [None] * len(guarded)
    names = [CredentialName(user, SHA_512) for user in guarded]
    changes = [change(KEYS, found.credentials[name].generation, name) for name in names]
    refused = [ErrorCode.unacceptable_credential] * len(guarded)
    assert codes(await side.write(*changes)) == refused
    deletions = [each._replace(keys=None) for each in changes]
    assert codes(await side.write(*deletions)) == refused
    rule = "by the rule that links touch no user of brokers, services and administrators"
    assert audit.text.count(rule) == 3 * len(guarded)


@pytest.mark.parametrize(
    ("keys", "name", "expected"),
    [
        (StoredKeys("x"), ALICE, ErrorCode.unacceptable_credential),
        (KEYS, ALICE._replace(mechanism=SHA_256), ErrorCode.unacceptable_credential),
        (KEYS, ALICE._replace(mechanism="PLAIN"), ErrorCode.unsupported_sasl_mechanism),
        (KEYS, ALICE._replace(user=""), ErrorCode.unacceptable_credential),
        (
            StoredKeys(KEYS.text.replace("=4096", "=100000")),
            ALICE,
            ErrorCode.unacceptable_credential,
        ),
        (
            StoredKeys(KEYS.text.replace("salt=", "salt=\n")),
            ALICE,
            ErrorCode.unacceptable_credential,
        ),
    ],
)
async def test_other_keys_are_refused(
    side: Side, keys: StoredKeys, name: CredentialName, expected: ErrorCode
) -> None:
    results = await side.write(change(keys, None, name))
    assert codes(results) == [expected]
    assert keys.text not in repr(results)


async def test_requests_are_bounded(side: Side) -> None:
    wrong = ErrorCode.invalid_request
    assert isinstance(everybody := await side.read(), Refusal)
    many = [f"u{index}" for index in range(CREDENTIALS_MAX + 1)]
    assert isinstance(too_many := await side.read(*many), Refusal)
    changes = [change(None, None, CredentialName(user, SHA_512)) for user in many]
    assert isinstance(too_many_changes := await side.write(*changes), Refusal)
    assert {everybody.error, too_many.error, too_many_changes.error} == {wrong}
    twice = await side.write(change(KEYS, None), change(None, None))
    assert isinstance(twice, Refusal)
    assert twice.error == ErrorCode.duplicate_resource
    for function, api in ((read_stored_credentials, READ), (write_stored_credentials, WRITE)):
        answer = function(side.broker, side.context(api, MIRROR, "TLS"), memoryview(b"\x01nothing"))
        assert isinstance(answer, bytes)
        assert wrong == getattr(decode_results(answer), "error", None)


async def test_without_an_authorizer_nothing_is_served(side: Side) -> None:
    side.broker.credential_access = None
    found, written = await asyncio.gather(side.read("alice"), side.write(change(KEYS, None)))
    assert isinstance(found, Refusal)
    assert isinstance(written, Refusal)
    assert found.error == written.error == ErrorCode.security_disabled


@pytest.mark.parametrize(("listener", "is_served"), [("TLS", True), ("PLAIN", False)])
async def test_a_mirror_learns_where_they_are_served(
    side: Side, listener: str, is_served: bool
) -> None:
    side.broker.client_metrics.connections = None
    context = side.context(ApiKey.API_VERSIONS, MIRROR, listener)
    request = messages.decode_request(ApiKey.API_VERSIONS, 0, memoryview(b""), 0)
    answer = api_versions(side.broker, context, request)
    assert isinstance(answer, bytes)
    found = messages.decode_response(ApiKey.API_VERSIONS, 0, memoryview(answer), 0)
    keys = {int(each.api_key) for each in found.api_keys}
    assert ({READ, WRITE} <= keys) is is_served
    assert keys.isdisjoint({READ, WRITE}) is not is_served
