"""Topics, groups and transactional ids of mirrors, which no general ACL allows to change."""

from __future__ import annotations

import pytest

from local_cluster.security.authorization.acl_image import AclImage
from local_cluster.security.authorization.decision import Asking, Decision, Policy, Rule, decide
from local_cluster.security.authorization.reserved_names import (
    CHANGES,
    GROUPS_OF_MIRRORS,
    PREFIX,
    TRANSACTIONS_OF_SPARK,
    ReservedNames,
)
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from mirror_maker.formats import map_topic_name
from mirror_maker.formats.completeness.statement import completeness_topic_name
from mirror_maker.formats.gaps import gaps_topic_name
from mirror_maker.formats.probe import MERGED_PROBE_COPY, PROBE_TOPIC_PREFIX
from mirror_maker.formats.receipts import receipts_topic_name
from mirror_maker.formats.verdicts import verdicts_topic_name
from mirror_maker.formats.workers import workers_group_id
from mirror_maker.formats.written_rights import rights_topic_name
from spark_global.serving.positions import positions_topic_name, transactional_id

MAP = map_topic_name("a-b")
MIRROR, OUTSIDER = Asking("User:mirror", "10.0.0.1"), Asking("User:outsider", "10.0.0.2")
RESERVED = Policy(
    super_users=frozenset({"User:admin"}),
    reserved=ReservedNames(
        {PREFIX: frozenset({"User:mirror"}), "heliograph-probe.": frozenset({"User:aggregator"})}
    ),
)


def allow(
    name: str,
    *,
    principal: str = "User:*",
    prefixed: bool = False,
    kind: ResourceType = ResourceType.TOPIC,
) -> Acl:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    all_, allowed = AclOperation.ALL, Permission.ALLOW
    return Acl(kind, name, pattern, principal, "*", all_, allowed)


def ask(
    asking: Asking,
    *acls: Acl,
    policy: Policy = RESERVED,
    name: str = MAP,
    operation: AclOperation = AclOperation.WRITE,
    kind: ResourceType = ResourceType.TOPIC,
) -> Decision:
    return decide(policy, AclImage.of(acls), asking, operation, kind, name)


EVERYTHING = allow("*")


@pytest.mark.parametrize("operation", sorted(CHANGES[ResourceType.TOPIC]))
@pytest.mark.parametrize("general", [EVERYTHING, allow("h", prefixed=True)])
def test_a_general_acl_changes_no_reserved_topic(operation: AclOperation, general: Acl) -> None:
    refused = Decision(False, Rule.RESERVED_TOPIC)
    assert ask(OUTSIDER, general, operation=operation) == refused
    assert ask(OUTSIDER, general, operation=operation, name="heliograph") != refused
    assert ask(MIRROR, general, operation=operation) == (True, general)
    assert ask(Asking("User:admin", "::1"), operation=operation) == (True, Rule.SUPER_USER)


@pytest.mark.parametrize("operation", [AclOperation.READ, AclOperation.DESCRIBE])
def test_reading_is_decided_by_the_acls_alone(operation: AclOperation) -> None:
    assert ask(OUTSIDER, EVERYTHING, operation=operation) == (True, EVERYTHING)


def test_an_acl_that_names_them_allows_as_usual() -> None:
    for named in (allow(PREFIX, prefixed=True), allow(MAP), allow("heliograph-o", prefixed=True)):
        named = named._replace(principal=OUTSIDER.principal)
        assert ask(OUTSIDER, EVERYTHING, named) == (True, named)
    denial = EVERYTHING._replace(permission=Permission.DENY)
    assert ask(OUTSIDER, allow(MAP), denial) == (False, denial), "a denial wins"


def test_a_writer_needs_an_acl_too() -> None:
    assert ask(MIRROR) == (False, Rule.DEFAULT_DENY)
    probe = Asking("User:aggregator", "10.0.0.3")
    assert ask(probe, EVERYTHING) == (False, Rule.RESERVED_TOPIC), "its prefix is another one"
    assert ask(probe, EVERYTHING, name="heliograph-probe.a-b.internal") == (True, EVERYTHING)


def test_everybody_is_not_allowed_where_no_acl_covers_them() -> None:
    open_policy = Policy(allow_if_no_acl=True, reserved=RESERVED.reserved)
    assert ask(OUTSIDER, policy=open_policy) == (False, Rule.RESERVED_TOPIC)
    assert ask(OUTSIDER, policy=open_policy, name="orders") == (True, Rule.DEFAULT_ALLOW)
    assert ask(MIRROR, policy=open_policy) == (True, Rule.DEFAULT_ALLOW)


GROUP, TRANSACTION = ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
READ, DESCRIBE, DELETE = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE
WRITE, ALTER_CONFIGS = AclOperation.WRITE, AclOperation.ALTER_CONFIGS


@pytest.mark.parametrize(
    ("kind", "operation", "name", "rule"),
    [
        # Joining, heartbeats, commits of offsets, also in transactions
        (GROUP, READ, "heliograph-mirror-nyc", Rule.RESERVED_GROUP),
        (GROUP, READ, "heliograph-other", Rule.RESERVED_GROUP),
        (GROUP, DELETE, "heliograph-mirror-nyc", Rule.RESERVED_GROUP),
        (GROUP, ALTER_CONFIGS, "heliograph-mirror-nyc", Rule.RESERVED_GROUP),
        (GROUP, DESCRIBE, "heliograph-mirror-nyc", None),
        (GROUP, AclOperation.DESCRIBE_CONFIGS, "heliograph-mirror-nyc", None),
        (GROUP, READ, "heliographs", None),
        (GROUP, READ, "orders", None),
        (TRANSACTION, WRITE, "heliograph-serve-q-0", Rule.RESERVED_TRANSACTION),
        (TRANSACTION, AclOperation.TWO_PHASE_COMMIT, "heliograph-x", Rule.RESERVED_TRANSACTION),
        (TRANSACTION, DESCRIBE, "heliograph-serve-q-0", None),
        (TRANSACTION, WRITE, "orders", None),
        # Nobody has a cluster or a token of such a name.
        (ResourceType.CLUSTER, AclOperation.ALTER, "heliograph-x", None),
        (ResourceType.DELEGATION_TOKEN, DESCRIBE, "heliograph-x", None),
    ],
)
def test_groups_and_transactional_ids(
    kind: ResourceType, operation: AclOperation, name: str, rule: Rule | None
) -> None:
    everything = allow("*", kind=kind)
    named = allow(PREFIX, prefixed=True, kind=kind)._replace(principal=OUTSIDER.principal)

    def asked(asking: Asking, *acls: Acl, policy: Policy = RESERVED) -> Decision:
        return ask(asking, *acls, policy=policy, name=name, operation=operation, kind=kind)

    expected = (True, everything) if rule is None else (False, rule)
    assert asked(OUTSIDER, everything) == expected
    assert asked(MIRROR, everything) == (True, everything)
    assert asked(OUTSIDER, everything, policy=Policy()) == (True, everything), "nothing is reserved"
    if rule is not None:
        assert asked(OUTSIDER, everything, named) == (True, named)
        anyone = Policy(allow_if_no_acl=True, reserved=RESERVED.reserved)
        assert asked(OUTSIDER, policy=anyone) == expected
        only_topics = ReservedNames({}, types=frozenset({int(ResourceType.TOPIC)}))
        assert asked(OUTSIDER, everything, policy=Policy(reserved=only_topics)).is_allowed


def test_groups_and_transactional_ids_of_ours_are_reserved() -> None:
    assert workers_group_id("nyc").startswith(GROUPS_OF_MIRRORS)
    assert transactional_id("q", 0).startswith(TRANSACTIONS_OF_SPARK)
    assert GROUPS_OF_MIRRORS.startswith(PREFIX)
    assert TRANSACTIONS_OF_SPARK.startswith(PREFIX)


def test_every_topic_of_ours_is_reserved() -> None:
    names = [
        MAP,
        MERGED_PROBE_COPY,
        PROBE_TOPIC_PREFIX,
        completeness_topic_name("l"),
        gaps_topic_name("l"),
        positions_topic_name("q"),
        receipts_topic_name("l"),
        rights_topic_name("l"),
        verdicts_topic_name("l"),
    ]
    assert [name for name in names if not name.startswith(PREFIX)] == []
