"""Configs and ACLs of copies follow their sources, against Apache Kafka with an authorizer."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from local_cluster.client.admin.acls import create_acls, delete_acls, describe_acls
from local_cluster.client.admin.configs import alter_topic_configs
from local_cluster.client.client import KafkaClient
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from mirror_maker.settings import dump_settings
from mirror_maker.topic_sync.topic_syncer import plan_acls, plan_configs
from tests.real.mirror.test_mirror_kill import create
from tests.support.mirror_process import mirror
from tests.support.secure_kafka import running_secure_kafka
from topology.deployment.deployment import Daemon, Deployment, LinkView
from topology.mirror.config_sync import sync_links

pytestmark = [pytest.mark.real, pytest.mark.oracle]


def acl(
    name: str,
    user: str,
    operation: AclOperation,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
) -> Acl:
    return Acl(ResourceType.TOPIC, name, pattern, f"User:{user}", "*", operation, permission)


async def test_configs_and_acls_follow_and_nothing_else_is_touched(tmp_path: Path) -> None:
    """The cluster is its own target: copies lie beside their sources."""
    async with contextlib.AsyncExitStack() as stack:
        kafka = await stack.enter_async_context(running_secure_kafka(tmp_path / "kafka"))
        bootstrap = kafka.plain_bootstrap
        admin = await stack.enter_async_context(KafkaClient(bootstrap))
        await create(admin, "t", 1)  # with retention.ms: -1
        local = acl("local", "alice", AclOperation.READ)
        at_source = [
            acl("t", "alice", AclOperation.READ),
            acl("t", "bob", AclOperation.ALL),
            acl("t", "carol", AclOperation.WRITE),
            acl("t", "dave", AclOperation.WRITE, Permission.DENY),
            acl("t", "erin", AclOperation.READ, pattern=PatternType.PREFIXED),
        ]
        assert not any((await create_acls(admin, [*at_source, local])).values())
        worker = await stack.enter_async_context(
            mirror(
                tmp_path,
                bootstrap,
                bootstrap,
                sync_configs=True,
                sync_acls=True,
                deletions="mirror",
            )
        )
        expected = {
            acl("a.t", "alice", AclOperation.READ),
            acl("a.t", "bob", AclOperation.READ),
            acl("a.t", "dave", AclOperation.WRITE, Permission.DENY),
            acl("a.t", "erin", AclOperation.READ, pattern=PatternType.PREFIXED),
        }

        async def has_acls() -> bool:
            found = await describe_acls(admin)
            return {each for each in found if each.resource_name == "a.t"} == expected

        async def has_retention(value: str | None) -> bool:
            if (await admin.metadata(["a.t"])).topics["a.t"].error:
                return False
            configs = (await admin.describe_topic_configs(["a.t"]))["a.t"]
            found, is_default = configs["retention.ms"]
            return is_default if value is None else (found == value and not is_default)

        await worker.until(has_acls)
        await worker.until(lambda: has_retention("-1"))
        # A config changes and is reset, an ACL is deleted.
        changed = await alter_topic_configs(admin, {"t": {"retention.ms": "86400000"}})
        assert changed == {"t": None}
        gone = acl("t", "alice", AclOperation.READ)
        assert (await delete_acls(admin, [gone]))[gone] is None
        expected.remove(acl("a.t", "alice", AclOperation.READ))
        await worker.until(lambda: has_retention("86400000"))
        await worker.until(has_acls)
        assert await alter_topic_configs(admin, {"t": {"retention.ms": None}}) == {"t": None}
        await worker.until(lambda: has_retention(None))
        assert local in await describe_acls(admin)
        settings = worker.settings.links[0]
        assert await plan_configs(admin, admin, settings, ["t"]) == ([], {})
        assert await plan_acls(admin, admin, settings, ["t"]) == []
        sync = (await worker.link())["topic_sync"]
        assert (sync["failure"], sync["withheld"], sync["refused"]) == (None, [], [])
        assert await worker.stop() == 0
        # By command: first a dry run, then the changes.
        daemon = Daemon(
            key="mirror-b",
            role="mirror",
            label="",
            argv=(),
            files={"settings.json": dump_settings(worker.settings).decode()},
            ready_file=worker.settings.ready_file,
        )
        view = LinkView(name="a-b", source="a", target="b", daemon="mirror-b")
        deployment = Deployment(name="d", topology_file="-", daemons=(daemon,), links=(view,))
        assert not any((await create_acls(admin, [gone])).values())

        async def is_known() -> bool:
            return gone in await describe_acls(admin)

        # Kafka shows an ACL a moment after it has acknowledged it.
        await worker.until(is_known)
        for dry_run, state in ((True, "planned"), (True, "planned"), (False, "done")):
            (change,) = await asyncio.to_thread(sync_links, deployment, None, dry_run=dry_run)
            assert (change["state"], change["resource"]) == (state, "a.t")
        expected.add(acl("a.t", "alice", AclOperation.READ))
        await worker.until(has_acls)
        assert await asyncio.to_thread(sync_links, deployment, "a-b", dry_run=True) == []
