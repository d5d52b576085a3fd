"""Compares users, ACLs and quotas of one running cluster with the file, and applies the difference.

Passwords of users are compared with the credentials in ZooKeeper, which prove a password without
holding it. Everything is changed through the brokers. The list of what the file created is a znode
of the cluster. If another `up` changes it at the same time, this one compares again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from local_cluster.client.admin.acls import create_acls, delete_acls, describe_acls
from local_cluster.client.admin.client_quotas import (
    QuotaChange,
    alter_client_quotas,
    describe_client_quotas,
)
from local_cluster.client.admin.scram_users import ScramChange, alter_scram_users
from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.security import SecurityError
from local_cluster.client.client import KafkaClient
from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.config_znodes import decode_config
from local_cluster.controller.zk.coordination import (
    CommitConflict,
    Coordination,
    CoordinationUnavailable,
    Create,
    SetPayload,
    ZkOp,
    Znode,
)
from local_cluster.controller.zk.kazoo_coordination import KazooCoordination
from local_cluster.security.authentication.scram_credentials import (
    ScramCredential,
    decode_credential,
)
from local_cluster.wire.constants import Acl
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError
from topology.deployment.declared_rights import DeclaredRights
from topology.deployment.deployment import ClusterView
from topology.deployment.rights_difference import (
    KnownRights,
    OwnedRights,
    PlannedRights,
    RightsChange,
    UserKey,
    decode_owned,
    differences,
    encode_owned,
    owned_afterwards,
    owned_while_applying,
)
from topology.model.quotas import QuotaKey
from topology.problems import DeployError

CLIENT_ID: Final = "heliograph-up"
REQUEST_TIMEOUT_MS: Final = 10_000
SESSION_TIMEOUT_MS: Final = 10_000
WHAT: Final = "users, ACLs and quotas"
PROPAGATION_S: Final = 10.0
"""Seconds in which every broker must know a new ACL; they promise one second."""
POLL_S: Final = 0.05

T = TypeVar("T")


class RightsUnavailable(Exception):
    """The cluster does not answer yet; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a cluster has, and the steps to what the file declares."""

    known: KnownRights
    changes: tuple[RightsChange, ...]
    record: Znode | None
    """The list of what the file created, as it was read."""
    is_complete: bool
    """False if there are ACLs to compare, and brokers have no authorizer."""


def planned_rights(cluster: ClusterView, former: ClusterView, *, is_running: bool) -> PlannedRights:
    """Return the steps that `up` would apply. Raises DeployError.

    A cluster that runs is reached at the addresses and as the user of `former`.
    """
    declared = _declared(cluster)
    count = declared.counted
    if not is_running:
        unknown = None if declared.is_empty else f"{count} are compared when its brokers run"
        return PlannedRights(cluster=cluster.name, unknown=unknown)
    reached = replace(cluster, bootstrap=former.bootstrap, security=former.security)

    async def compare() -> Comparison:
        async with _connected(reached) as (client, coordination):
            return await _compare(declared, client, coordination)

    try:
        found = _run(cluster, compare)
    except RightsUnavailable as error:
        return PlannedRights(cluster=cluster.name, unknown=f"{count} cannot be compared: {error}")
    unknown = None
    if not found.is_complete:
        unknown = f"{len(declared.acls)} ACLs are compared when its brokers have the authorizer"
    return PlannedRights(cluster=cluster.name, changes=found.changes, unknown=unknown)


def apply_rights(
    cluster: ClusterView,
    *,
    deletes: bool,
    on_changes: Callable[[Sequence[RightsChange]], None],
) -> bool:
    """Apply the steps, without deletions unless `deletes`; return whether nothing is left.

    Raises RightsUnavailable, or DeployError that names every refusal. The next call continues where
    this one failed.
    """

    async def apply() -> bool:
        async with _connected(cluster) as (client, coordination):
            declared = _declared(cluster)
            found = await _compare(declared, client, coordination)
            if deletes and not found.is_complete:
                raise RightsUnavailable("its brokers have no authorizer yet")
            chosen = [each for each in found.changes if deletes or each.action != "delete"]
            if chosen:
                on_changes(chosen)
            refusals = await _apply(declared, client, coordination, found, chosen)
            if refusals:
                raise DeployError(f"{cluster.name} refuses rights that the file declares", refusals)
            return found.is_complete and len(chosen) == len(found.changes)

    return _run(cluster, apply)


async def _compare(
    declared: DeclaredRights, client: KafkaClient, coordination: Coordination
) -> Comparison:
    record = await coordination.read(znode_paths.DECLARED_RIGHTS)
    owned = OwnedRights() if record is None else _owned(record)
    passwords = _passwords(declared)
    compares_acls = declared.has_authorizer and bool(declared.acls or owned.acls)
    quotas = dict(declared.quotas)
    known = KnownRights(
        users=await _credentials(coordination, passwords.keys() | owned.users),
        acls=await _acls(client) if compares_acls else None,
        owned=owned,
        quotas=await _quotas(client) if quotas or owned.quotas else {},
    )
    return Comparison(
        known=known,
        changes=tuple(differences(passwords, declared.acls, known, quotas)),
        record=record,
        is_complete=known.acls is not None or not compares_acls,
    )


async def _apply(
    declared: DeclaredRights,
    client: KafkaClient,
    coordination: Coordination,
    found: Comparison,
    chosen: Sequence[RightsChange],
) -> list[str]:
    """Apply steps; return the refusals, one line each."""
    record = _Record(coordination, found.record)
    await record.write(owned_while_applying(found.known.owned, chosen))
    passwords = _passwords(declared)
    users = [each.user for each in chosen if each.user is not None and each.action != "delete"]
    gone = [each.user for each in chosen if each.user is not None and each.action == "delete"]
    acls = [each.acl for each in chosen if each.acl is not None and each.action == "create"]
    acls_gone = [each.acl for each in chosen if each.acl is not None and each.action == "delete"]
    of_users = await _alter(client, [ScramChange(*user, passwords[user]) for user in users])
    of_acls = await create_acls(client, acls)
    of_acls |= await delete_acls(client, acls_gone)
    of_users |= await _alter(client, [ScramChange(*user, None) for user in gone])
    await _wait_for_acls(client, {acl for acl in acls if of_acls[acl] is None})
    of_quotas = await _alter_quotas(client, chosen)
    outcomes = [(each, _outcome(each, of_users, of_acls, of_quotas)) for each in chosen]
    done = [each for each, error in outcomes if error is None]
    await record.write(owned_afterwards(found.known, done))
    return [f"{each.sentence()}: {error}" for each, error in outcomes if error is not None]


async def _wait_for_acls(client: KafkaClient, created: Set[Acl]) -> None:
    """Wait until every broker knows the ACLs, so that none denies what they allow.

    Raises RightsUnavailable if that takes too long.
    """
    if not created:
        return
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + PROPAGATION_S
    for broker in (await client.metadata([])).brokers:
        while not created <= await describe_acls(client, node_id=broker):
            if loop.time() > deadline_s:
                raise RightsUnavailable(f"broker {broker} does not know the new ACLs yet")
            await asyncio.sleep(POLL_S)


Error = KafkaError | None


def _outcome(
    change: RightsChange,
    of_users: Mapping[UserKey, Error],
    of_acls: Mapping[Acl, Error],
    of_quotas: Mapping[QuotaKey, Error],
) -> Error:
    """Return the error of a step, None if it was done."""
    if change.quota is not None:
        return of_quotas[change.quota.key]
    if change.acl is not None:
        return of_acls[change.acl]
    assert change.user is not None, "a step is on a user, an ACL or a quota"
    return of_users[change.user]


async def _alter_quotas(
    client: KafkaClient, chosen: Sequence[RightsChange]
) -> dict[QuotaKey, Error]:
    steps = [each.quota for each in chosen if each.quota is not None]
    changes = [QuotaChange(*each.key, each.value) for each in steps]
    errors = await alter_client_quotas(client, changes) if changes else []
    return {step.key: error for step, error in zip(steps, errors, strict=True)}


async def _quotas(client: KafkaClient) -> dict[QuotaKey, float]:
    found = await describe_client_quotas(client)
    return {
        QuotaKey(entity, quota): value
        for entity, values in found.items()
        for quota, value in values.items()
    }


async def _alter(client: KafkaClient, changes: Sequence[ScramChange]) -> dict[UserKey, Error]:
    errors = await alter_scram_users(client, changes)
    keys = [UserKey(each.name, each.mechanism) for each in changes]
    return dict(zip(keys, errors, strict=True))


class _Record:
    """The znode with what the file created, which nobody else may change meanwhile."""

    def __init__(self, coordination: Coordination, read: Znode | None) -> None:
        self._coordination = coordination
        self._payload = None if read is None else read.payload
        self._version = None if read is None else read.version

    async def write(self, owned: OwnedRights) -> None:
        """Replace the list, if it changes. Raises CommitConflict if another process did."""
        payload, path = encode_owned(owned), znode_paths.DECLARED_RIGHTS
        if payload == self._payload or (self._payload is None and owned == OwnedRights()):
            return
        if self._version is None:
            op: ZkOp = Create(path, payload)
        else:
            op = SetPayload(path, payload, self._version)
        (self._version,) = await self._coordination.commit([op])
        self._payload = payload


def _owned(record: Znode) -> OwnedRights:
    try:
        return decode_owned(record.payload)
    except ValueError as error:
        raise DeployError(f"{znode_paths.DECLARED_RIGHTS} in ZooKeeper: {error}") from error


def _passwords(declared: DeclaredRights) -> dict[UserKey, str]:
    """Return the password of every wanted credential. Raises SecurityError or DeployError."""
    found: dict[UserKey, str] = {}
    for user in declared.users:
        password = read_secret(user.password)
        if not password:
            raise DeployError(f"the password of user {user.name} is empty")
        found |= {UserKey(user.name, mechanism): password for mechanism in user.mechanisms}
    return found


async def _credentials(
    coordination: Coordination, keys: Iterable[UserKey]
) -> dict[UserKey, ScramCredential]:
    """Return those of the credentials that ZooKeeper has."""
    found: dict[UserKey, ScramCredential] = {}
    by_name: dict[str, list[UserKey]] = {}
    for key in keys:
        by_name.setdefault(key.name, []).append(key)
    for name, wanted in by_name.items():
        path = f"{znode_paths.USER_CONFIGS}/{znode_paths.sanitize(name)}"
        znode = await coordination.read(path)
        try:
            config = {} if znode is None else decode_config(znode.payload)
            for key in wanted:
                if key.mechanism in config:
                    found[key] = decode_credential(config[key.mechanism])
        except ValueError as error:
            raise DeployError(f"user {name} in ZooKeeper: {error}") from error
    return found


async def _acls(client: KafkaClient) -> frozenset[Acl] | None:
    try:
        return frozenset(await describe_acls(client))
    except KafkaError as error:
        if error.code == ErrorCode.security_disabled:
            return None
        raise


def _declared(cluster: ClusterView) -> DeclaredRights:
    assert cluster.rights is not None, f"{cluster.name} has no users, ACLs and quotas to compare"
    return cluster.rights


@contextlib.asynccontextmanager
async def _connected(cluster: ClusterView) -> AsyncIterator[tuple[KafkaClient, Coordination]]:
    """Connect to the brokers first: then ZooKeeper answers too."""
    async with KafkaClient(
        cluster.bootstrap,
        client_id=CLIENT_ID,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        security=cluster.security,
    ) as client:
        await client.metadata([])
        declared = _declared(cluster)
        coordination = KazooCoordination(
            declared.zookeeper,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            security=declared.zookeeper_security,
            sets_acl=declared.sets_znode_acls,
        )
        try:
            await coordination.start()
            yield client, coordination
        finally:
            await coordination.stop()


def _run(cluster: ClusterView, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run `work`; errors that may pass become RightsUnavailable, others DeployError."""
    # What kazoo logs while it retries is no error.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    try:
        return asyncio.run(work())
    except KafkaError as error:
        if error.retriable:
            raise RightsUnavailable(str(error)) from error
        raise DeployError(f"{WHAT} of {cluster.name}: {error}") from error
    except (CoordinationUnavailable, OSError) as error:
        raise RightsUnavailable(str(error)) from error
    except CommitConflict as error:
        raise RightsUnavailable("another `heliograph up` changes them too") from error
    except (SecurityError, PeerError) as error:
        raise DeployError(f"{WHAT} of {cluster.name}: {error}") from error
