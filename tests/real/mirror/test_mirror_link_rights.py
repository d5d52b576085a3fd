"""ACLs of groups and transactional ids, and quotas, follow along a link."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from local_cluster.client.admin.acls import create_acls, delete_acls, describe_acls
from local_cluster.client.admin.client_quotas import (
    QuotaChange,
    QuotaEntity,
    alter_client_quotas,
    describe_client_quotas,
)
from local_cluster.client.admin.group_offsets import CommittedOffset, commit_offsets
from local_cluster.client.admin.scram_users import ScramChange, alter_scram_users
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from local_cluster.wire.errors import ErrorCode
from mirror_maker.settings import Limits, dump_settings
from tests.real.mirror.test_mirror_kill import create
from tests.support.cluster import running_clusters
from tests.support.mirror_process import MirrorProcess, mirror
from tests.support.secure_kafka import running_secure_kafka
from topology.deployment.deployment import Daemon, Deployment, LinkView
from topology.mirror.config_sync import sync_links

pytestmark = pytest.mark.real

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
QUICK = Limits(topic_sync_ms=200)
RIGHTS: dict[str, Any] = {
    "sync_acls": True,
    "sync_group_acls": True,
    "sync_transactional_id_acls": True,
    "sync_quotas": True,
    "quota_users": ("alice", "bob"),
    "deletions": "mirror",
}
GROUP, ID = ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
ALICE: QuotaEntity = (("user", "alice"),)
BOB: QuotaEntity = (("user", "bob"), ("client-id", None))
CAROL: QuotaEntity = (("user", "carol"),)
CLIENT: QuotaEntity = (("client-id", "etl"),)
RATE = "producer_byte_rate"


def acl(
    kind: ResourceType,
    name: str,
    user: str = "alice",
    operation: AclOperation = AclOperation.READ,
    pattern: PatternType = PatternType.LITERAL,
) -> Acl:
    return Acl(kind, name, pattern, f"User:{user}", "*", operation, Permission.ALLOW)


async def add(client: KafkaClient, *acls: Acl) -> None:
    assert not any((await create_acls(client, acls)).values())


async def remove(client: KafkaClient, *acls: Acl) -> None:
    assert not any((await delete_acls(client, acls)).values())


async def set_quota(client: KafkaClient, entity: QuotaEntity, value: float | None) -> None:
    assert await alter_client_quotas(client, [QuotaChange(entity, RATE, value)]) == [None]


class Sides:
    """A link with both sides as their owners see them."""

    def __init__(self, source: KafkaClient, target: KafkaClient, worker: MirrorProcess) -> None:
        self.source, self.target, self.worker = source, target, worker

    async def until(self, acls: set[Acl], quotas: dict[QuotaEntity, float]) -> None:
        """Wait until the target has exactly these of groups, transactional ids and clients."""

        async def is_there() -> bool:
            kinds = await describe_acls(self.target, GROUP) | await describe_acls(self.target, ID)
            found = await describe_client_quotas(self.target)
            return kinds == acls and found == {name: {RATE: v} for name, v in quotas.items()}

        await self.worker.until(is_there)

    async def status(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.worker.link())["rights_sync"]
        return found

    async def until_withheld(self, *names: str) -> None:
        async def are_withheld() -> bool:
            withheld = (await self.status())["withheld"]
            return sorted(each["name"] for each in withheld) == sorted(names)

        await self.worker.until(are_withheld)


async def follow_everything(sides: Sides) -> None:
    """Play the same scenario between any two clusters with authorizers."""
    source, target = sides.source, sides.target
    # The target's owner has rights of its own: an ACL that the source has too, and another value.
    shared, local = acl(GROUP, "shared"), acl(GROUP, "local", "dave")
    await add(target, shared, local)
    await set_quota(target, CLIENT, 7.0)
    produce = acl(ID, "etl-", operation=AclOperation.WRITE, pattern=PatternType.PREFIXED)
    billing = acl(GROUP, "billing", "bob", AclOperation.ALL)
    prefix = acl(GROUP, "app-", pattern=PatternType.PREFIXED)
    await add(
        source,
        shared,
        produce,
        billing,
        prefix,
        acl(GROUP, "*", "erin"),
        acl(GROUP, "heliograph-x", "erin"),
        acl(ResourceType.TOPIC, "t", "alice", AclOperation.WRITE),
    )
    await set_quota(source, ALICE, 1000.0)
    for entity in (BOB, CAROL, CLIENT):
        await set_quota(source, entity, 5.0)
    # The pattern of all groups becomes the groups that there are, because the link leaves out some.
    at = TopicPartition("t", 0)
    committed = await commit_offsets(source, "g1", {at: CommittedOffset(0, -1, "")})
    assert committed == {at: ErrorCode.none}
    theirs = {shared, local}
    erin = acl(GROUP, "g1", "erin")
    await sides.until(theirs | {produce, billing, prefix, erin}, {ALICE: 1000.0, CLIENT: 7.0})
    await sides.until_withheld(RATE)
    # What changes at the source changes, and what goes there goes.
    await set_quota(source, ALICE, 2000.0)
    await remove(source, billing, shared, acl(GROUP, "*", "erin"))
    await sides.until(theirs | {produce, prefix}, {ALICE: 2000.0, CLIENT: 7.0})
    # The next worker knows what the first one wrote.
    await sides.worker.kill()
    await set_quota(source, ALICE, None)
    await set_quota(source, CLIENT, None)
    await remove(source, produce)
    await sides.worker.start()
    await sides.until(theirs | {prefix}, {CLIENT: 7.0})
    # A value that the target's owner changes is the owner's from then on.
    await set_quota(source, ALICE, 10.0)
    await sides.until(theirs | {prefix}, {ALICE: 10.0, CLIENT: 7.0})
    await set_quota(target, ALICE, 11.0)
    await sides.until_withheld(RATE)
    await set_quota(source, ALICE, None)
    await sides.until_withheld()
    await sides.until(theirs | {prefix}, {ALICE: 11.0, CLIENT: 7.0})
    # Nobody got the right to write into a copy.
    assert all(
        each.operation != AclOperation.WRITE
        for each in await describe_acls(target, ResourceType.TOPIC)
    )
    status = await sides.status()
    assert (status["failure"], status["refused"]) == (None, [])


@pytest.fixture
async def ours(zookeeper: str, tmp_path: Path) -> AsyncIterator[tuple[dict[str, str], Any]]:
    async with running_clusters(zookeeper, tmp_path, "a", "b", config=AUTHORIZER) as running:
        await create(running[1]["a"], "t", 1)
        yield running


async def test_rights_follow_between_our_brokers(
    ours: tuple[dict[str, str], dict[str, KafkaClient]], tmp_path: Path
) -> None:
    bootstraps, clients = ours
    async with mirror(tmp_path, bootstraps["a"], bootstraps["b"], limits=QUICK, **RIGHTS) as worker:
        sides = Sides(clients["a"], clients["b"], worker)
        await follow_everything(sides)
        # A user of SCRAM at the source cannot log in on the target: this link carries no users.
        for user in ("alice", "zoe"):
            change = ScramChange(user, "SCRAM-SHA-512", "secret")
            assert await alter_scram_users(clients["a"], [change]) == [None]

        async def is_named() -> bool:
            users = (await sides.status())["users_without_credentials"]
            return bool(users == ["alice"])

        await worker.until(is_named)
        # The command shows what a worker is going to do, and leaves it to the worker.
        await worker.kill()
        late = acl(GROUP, "late")
        await add(clients["a"], late)
        await set_quota(clients["a"], BOB[:1], 3.0)
        deployment = deployment_of(worker)
        for dry_run in (True, False):
            changes = await asyncio.to_thread(sync_links, deployment, None, dry_run=dry_run)
            assert [(each["kind"], each["resource"], each["state"]) for each in changes] == [
                ("create_acl", "late", "planned"),
                ("set_quota", "user 'bob'", "planned"),
            ]
        assert late not in await describe_acls(clients["b"], GROUP)


def deployment_of(worker: MirrorProcess) -> Deployment:
    daemon = Daemon(
        key="mirror-b",
        role="mirror",
        label="",
        argv=(),
        files={"settings.json": dump_settings(worker.settings).decode()},
        ready_file=worker.settings.ready_file,
    )
    view = LinkView(name="a-b", source="a", target="b", daemon="mirror-b")
    return Deployment(name="d", topology_file="-", daemons=(daemon,), links=(view,))


async def test_a_right_that_its_owner_deletes_does_not_come_back_over_the_other_link(
    ours: tuple[dict[str, str], dict[str, KafkaClient]], tmp_path: Path
) -> None:
    bootstraps, clients = ours
    right = acl(GROUP, "billing")
    async with contextlib.AsyncExitStack() as stack:
        workers = []
        for name, source, target in (("a-b", "a", "b"), ("b-a", "b", "a")):
            worker = await stack.enter_async_context(
                mirror(
                    tmp_path / name,
                    bootstraps[source],
                    bootstraps[target],
                    link=name,
                    limits=QUICK,
                    **RIGHTS,
                )
            )
            workers.append(worker)
        forth, back = (
            Sides(clients["a"], clients["b"], workers[0]),
            Sides(clients["b"], clients["a"], workers[1]),
        )
        await add(clients["a"], right)
        await set_quota(clients["a"], ALICE, 4.0)
        await forth.until({right}, {ALICE: 4.0})
        await remove(clients["a"], right)
        await set_quota(clients["a"], ALICE, None)
        await forth.until(set(), {})
        # A right of the other side crosses afterwards, so the link back has looked since.
        await add(clients["b"], acl(GROUP, "native", "bob"))
        await back.until({acl(GROUP, "native", "bob")}, {})
        found: list[tuple[int, str | None]] = []

        async def are_counted() -> bool:
            # A change is counted a moment after it can be seen.
            statuses = [await each.status() for each in (forth, back)]
            found[:] = [(each["applied"], each["failure"]) for each in statuses]
            return all(applied >= 1 for applied, _ in found)

        await back.worker.until(are_counted)
        assert found == [(4, None), (1, None)]


async def test_nothing_is_deleted_unless_deletions_are_mirrored(
    ours: tuple[dict[str, str], dict[str, KafkaClient]], tmp_path: Path
) -> None:
    bootstraps, clients = ours
    right = acl(GROUP, "billing")
    await add(clients["a"], right)
    await set_quota(clients["a"], ALICE, 4.0)
    options = {**RIGHTS, "deletions": "report"}
    async with mirror(
        tmp_path, bootstraps["a"], bootstraps["b"], limits=QUICK, **options
    ) as worker:
        sides = Sides(clients["a"], clients["b"], worker)
        await sides.until({right}, {ALICE: 4.0})
        await remove(clients["a"], right)
        await set_quota(clients["a"], ALICE, None)
        await sides.until_withheld(str(right), RATE)
        await sides.until({right}, {ALICE: 4.0})


@pytest.mark.oracle
@pytest.mark.parametrize("kafka_is", ["source", "target"])
async def test_rights_follow_from_and_to_apache_kafka(
    zookeeper: str, tmp_path: Path, kafka_is: str
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        kafka = await stack.enter_async_context(running_secure_kafka(tmp_path / "kafka"))
        theirs = await stack.enter_async_context(KafkaClient(kafka.plain_bootstrap))
        running = running_clusters(zookeeper, tmp_path, "c", config=AUTHORIZER)
        bootstraps, clients = await stack.enter_async_context(running)
        pairs = [(kafka.plain_bootstrap, theirs), (bootstraps["c"], clients["c"])]
        (here, source), (there, target) = pairs if kafka_is == "source" else pairs[::-1]
        await create(source, "t", 1)
        worker = await stack.enter_async_context(
            mirror(tmp_path, here, there, limits=QUICK, **RIGHTS)
        )
        await follow_everything(Sides(source, target, worker))
