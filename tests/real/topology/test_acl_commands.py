"""`heliograph acl` on a real broker of ours that decides by ACLs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.admin_scenario import Commands
from tests.support.cluster import running_broker

pytestmark = pytest.mark.real

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


async def test_acls(zookeeper: str, tmp_path: Path) -> None:
    async with running_broker(zookeeper, tmp_path, config=AUTHORIZER) as broker:
        await asyncio.to_thread(scenario, Commands(broker.bootstrap))


def scenario(on: Commands) -> None:
    words = ("User:alice", "READ", "describe", "--topic", "orders", "--group", "billing")
    planned = on.json("acl", "create", *words, "--dry-run")
    assert [each["state"] for each in planned["changes"]] == ["planned"] * 4
    assert on.json("acl", "list") == {"acls": []}
    assert on.lines("acl", "list") == [["there", "are", "none"]]
    assert on.lines("acl", "create", *words, "--dry-run")[0][:3] == ["planned:", "create", "acl"]
    done = on.json("acl", "create", *words, "--prefixed")
    assert [each["state"] for each in done["changes"]] == ["done"] * 4
    on.json("acl", "create", "User:bob", "ALTER", "--on-cluster", "--deny", "--host", "10.0.0.1")
    (cluster,) = on.json("acl", "list", "--principal", "User:bob")["acls"]
    assert cluster == {
        "permission": "DENY",
        "principal": "User:bob",
        "host": "10.0.0.1",
        "operation": "ALTER",
        "resource": "CLUSTER",
        "name": "kafka-cluster",
        "pattern": "LITERAL",
    }
    line = ["ALLOW", "User:alice", "*", "READ", "TOPIC", "orders", "PREFIXED"]
    assert line in on.lines("acl", "list")
    assert "with --yes" in on.refusal("acl", "delete", *words, "--prefixed", code=2)
    assert on.lines("acl", "delete", *words, "--yes") == [["nothing", "to", "change"]]
    on.json("acl", "delete", *words, "--prefixed", "--yes")
    assert on.json("acl", "list")["acls"] == [cluster]
    assert "name a resource" in on.refusal("acl", "create", "User:a", "READ", code=2)
    wrong = on.refusal("acl", "create", "User:a", "REED", "--topic", "t", code=2)
    assert "no operation 'REED'; did you mean 'READ'?" in wrong
    assert "is not TYPE:NAME" in on.refusal("acl", "create", "a", "READ", "--topic", "t", code=2)
