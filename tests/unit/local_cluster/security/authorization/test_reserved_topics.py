"""Topics of mirrors, which no general ACL allows to change."""

from __future__ import annotations

import pytest

from local_cluster.security.authorization.acl_image import AclImage
from local_cluster.security.authorization.decision import Asking, Decision, Policy, Rule, decide
from local_cluster.security.authorization.reserved_topics import CHANGES, PREFIX, ReservedTopics
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from mirror_maker.formats import map_topic_name
from mirror_maker.formats.completeness.statement import completeness_topic_name
from mirror_maker.formats.gaps import gaps_topic_name
from mirror_maker.formats.probe import MERGED_PROBE_COPY, PROBE_TOPIC_PREFIX
from mirror_maker.formats.receipts import receipts_topic_name
from mirror_maker.formats.verdicts import verdicts_topic_name
from mirror_maker.formats.written_rights import rights_topic_name
from spark_global.serving.positions import positions_topic_name

MAP = map_topic_name("a-b")
MIRROR, OUTSIDER = Asking("User:mirror", "10.0.0.1"), Asking("User:outsider", "10.0.0.2")
RESERVED = Policy(
    super_users=frozenset({"User:admin"}),
    reserved=ReservedTopics(
        {PREFIX: frozenset({"User:mirror"}), "heliograph-probe.": frozenset({"User:aggregator"})}
    ),
)


def allow(name: str, *, principal: str = "User:*", prefixed: bool = False) -> Acl:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    all_, allowed = AclOperation.ALL, Permission.ALLOW
    return Acl(ResourceType.TOPIC, name, pattern, principal, "*", all_, allowed)


def ask(
    asking: Asking,
    *acls: Acl,
    policy: Policy = RESERVED,
    name: str = MAP,
    operation: AclOperation = AclOperation.WRITE,
) -> Decision:
    return decide(policy, AclImage.of(acls), asking, operation, ResourceType.TOPIC, name)


EVERYTHING = allow("*")


@pytest.mark.parametrize("operation", sorted(CHANGES))
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


def test_groups_with_such_names_are_not_reserved() -> None:
    group = EVERYTHING._replace(resource_type=ResourceType.GROUP)
    image = AclImage.of([group])
    kind, alter = ResourceType.GROUP, AclOperation.ALTER_CONFIGS
    assert decide(RESERVED, image, OUTSIDER, alter, kind, "heliograph-mirror-nyc").is_allowed


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
