from __future__ import annotations

import logging

import pytest

from local_cluster.handlers.services import RequestContext
from local_cluster.security.authorization import authorizer as module
from local_cluster.security.authorization import denials
from local_cluster.security.authorization.acl_image import AclImage
from local_cluster.security.authorization.authorizer import Authorizer
from local_cluster.security.authorization.decision import Policy
from local_cluster.security.authorization.denials import DenialKey
from local_cluster.security.authorization.policy import is_authorizer_configured, policy_of
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType

READ = Acl(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "0:0:0:0:0:0:0:1",
    AclOperation.READ,
    Permission.ALLOW,
)


def context(principal: str = "User:alice", client_id: str | None = "c") -> RequestContext:
    return RequestContext(ApiKey.FETCH, 12, 1, client_id, principal, "CLIENTS", "::1", 7)


def authorizer(*acls: Acl, dry: bool = False, policy: Policy | None = None) -> Authorizer:
    made = Authorizer(policy or Policy(), is_dry_run=dry, on_change=lambda: None)
    made.set_image(AclImage.of(acls))
    return made


def test_a_changed_image_forgets_every_decision() -> None:
    changes: list[None] = []
    made = Authorizer(Policy(), on_change=lambda: changes.append(None))
    assert not made.authorize(context(), "READ", "TOPIC", "orders"), "no image, no access"
    made.set_image(AclImage.of([READ]))
    for _ in range(2):
        assert made.authorize(context(), "READ", "TOPIC", "orders")
        assert made.authorize_any(context(), "READ", "TOPIC")
    before = made.version
    made.set_image(AclImage({}))
    assert not made.authorize(context(), "READ", "TOPIC", "orders")
    assert not made.authorize_any(context(), "READ", "TOPIC")
    assert made.version > before
    assert len(changes) == 2


def test_remembered_decisions_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DECISIONS_MAX", 3)
    made = authorizer(READ)
    for index in range(10):
        assert not made.may(context(), "READ", "TOPIC", f"t{index}")
    assert len(made._decisions) <= 3
    assert made.may(context(), "READ", "TOPIC", "orders")


def test_a_denial_says_everything(caplog: pytest.LogCaptureFixture) -> None:
    denying = READ._replace(principal="User:*", permission=Permission.DENY, host="*")
    made = authorizer(READ, denying)
    with caplog.at_level(logging.INFO, logger="kafka.authorizer.logger"):
        assert not made.authorize(context(), "READ", "TOPIC", "orders")
        assert not made.authorize(context("User:b\n2026"), "WRITE", "TOPIC", "x" * 1_000)
        assert not made.may(context(), "READ", "TOPIC", "orders"), "asked for, not tried"
    first, second = caplog.messages
    assert first == (
        "Denied: principal 'User:alice' from host ::1 on listener CLIENTS, client id 'c': READ on "
        "TOPIC 'orders' for FETCH, by ACL \"DENY User:* from * READ TOPIC 'orders' LITERAL\""
    )
    assert "\n" not in second
    assert second.endswith("by no ACL that matched")
    assert len(second) < 600
    assert made.denials.counts == {
        DenialKey("CLIENTS", "User:alice", "FETCH"): 1,
        DenialKey("CLIENTS", "User:b\n2026", "FETCH"): 1,
    }


def test_counted_principals_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denials, "KEYS_MAX", 2)
    made = authorizer()
    for index in range(5):
        made.authorize(context(f"User:{index}"), "READ", "TOPIC", "t")
    assert made.denials.counts[DenialKey("CLIENTS", denials.OTHERS, "FETCH")] == 3
    assert len(made.denials.counts) == 3


def test_a_dry_run_allows_and_notes(caplog: pytest.LogCaptureFixture) -> None:
    made = authorizer(dry=True)
    with caplog.at_level(logging.INFO, logger="kafka.authorizer.logger"):
        assert made.authorize(context(), "READ", "TOPIC", "orders")
        assert made.authorize_any(context(), "WRITE", "TOPIC")
        assert made.may(context(), "READ", "TOPIC", "orders")
        assert not made.holds(context(), "CREATE", "CLUSTER", "kafka-cluster"), "by the ACLs alone"
    assert [message.partition(":")[0] for message in caplog.messages] == ["Would be denied"] * 2
    assert sum(made.denials.counts.values()) == 2


def test_configs() -> None:
    assert policy_of({}) == Policy()
    config = {
        "super.users": " User:a;User:CN=b,OU=c ;; ",
        "allow.everyone.if.no.acl.found": " TRUE ",
    }
    assert policy_of(config) == Policy(frozenset({"User:a", "User:CN=b,OU=c"}), True)
    assert not is_authorizer_configured({})
    assert not is_authorizer_configured({"authorizer.class.name": " "})
    named = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    assert is_authorizer_configured({"authorizer.class.name": named})


RESERVED = policy_of({}, ["User:broker"], {"heliograph-": ["User:mirror"]})
GENERAL = Acl(
    ResourceType.TOPIC,
    "*",
    PatternType.LITERAL,
    "User:*",
    "*",
    AclOperation.ALL,
    Permission.ALLOW,
)
MAP = "heliograph-offset-map.a-b.internal"


def test_a_right_on_the_cluster_is_none_on_reserved_topics(
    caplog: pytest.LogCaptureFixture,
) -> None:
    on_cluster = GENERAL._replace(resource_type=ResourceType.CLUSTER, resource_name="kafka-cluster")
    made = authorizer(GENERAL, on_cluster, policy=RESERVED)
    for operation in ("CREATE", "ALTER"):
        assert made.holds_for_topic(context(), operation, "orders")
        assert not made.holds_for_topic(context(), operation, MAP)
        assert made.holds_for_topic(context("User:mirror"), operation, MAP)
        assert made.holds_for_topic(context("User:broker"), operation, MAP)
    with caplog.at_level(logging.INFO, logger="kafka.authorizer.logger"):
        assert not made.authorize(context(), "WRITE", "TOPIC", MAP)
    assert caplog.messages[0].endswith(
        f"WRITE on TOPIC '{MAP}' for FETCH, by the rule that only an ACL on heliograph-... allows "
        "changes of topics of mirrors"
    )


def test_a_dry_run_only_notes_what_changes_reserved_topics() -> None:
    made = authorizer(GENERAL, dry=True, policy=RESERVED)
    assert made.authorize(context(), "WRITE", "TOPIC", MAP)
    assert made.denials.counts == {DenialKey("CLIENTS", "User:alice", "FETCH"): 1}


def test_without_writers_in_the_settings_no_topic_is_reserved() -> None:
    made = authorizer(GENERAL, policy=policy_of({}, ["User:broker"]))
    assert made.authorize(context(), "WRITE", "TOPIC", MAP)
