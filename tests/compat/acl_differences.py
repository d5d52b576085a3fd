"""Where the AclAuthorizer of Kafka 3.9.1 decides otherwise than Kafka 4.4, by named kinds. Pure.

Each kind is a change to our own decision, so the kinds together are a model of that AclAuthorizer.
A difference has the smallest set of kinds with which our decision becomes its decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from enum import Enum
from itertools import combinations
from typing import Final

from local_cluster.security.authorization.acl_image import AclImage
from local_cluster.security.authorization.decision import (
    Asking,
    decide,
    decide_by_resource_type,
)
from local_cluster.security.authorization.hosts import java_host, matches_host
from local_cluster.wire.constants import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclOperation,
    PatternType,
    Permission,
)
from tests.compat.acl_worlds import Question, World

NOBODY: Final = "Nobody:nobody"
"""The principal of an ACL that covers its resource and matches no request."""
NOT_KNOWN: Final = "-"
"""How DecideByAclAuthorizer.java decides on an operation that its release does not know."""


class Kind(Enum):
    """A rule of Kafka 4.4 that Kafka 3.9.1 has otherwise, in the words of the table."""

    BLOCK = "a host that is a CIDR block | matches its addresses | matches no address"
    IMPLIED = (
        "any resource of a type, DESCRIBE or DESCRIBE_CONFIGS | an ACL that covers a resource "
        "named `hardcode` also allows what it implies | nothing is implied"
    )
    NO_ACL = (
        "any resource of a type, `allow.everyone.if.no.acl.found` | allowed without ACLs if no ACL "
        "covers a resource named `hardcode` | allowed unless a wildcard ACL denies"
    )
    OPERATION = "the operation TWO_PHASE_COMMIT | decided like others | not known"


def kinds_of(world: World, question: Question, told: str) -> frozenset[Kind] | None:
    """Return the fewest kinds that lead to 3.9.1's decision; None if no set of them does."""
    if question.operation is AclOperation.TWO_PHASE_COMMIT:
        return frozenset({Kind.OPERATION}) if told == NOT_KNOWN else None
    for kinds in _sets_of_kinds():
        if decide_with(kinds, world, question) == told:
            return kinds
    return None


def decide_with(kinds: Set[Kind], world: World, question: Question) -> str:
    """Return our decision with the rules of 3.9.1 for these kinds."""
    host = java_host(question.asking.host)
    asking = Asking(question.asking.principal, host)
    policy, kind = world.policy, question.resource_type
    acls = [_as_nobodys(acl) if _is_other(kinds, acl, question) else acl for acl in world.acls]
    if question.name is not None:
        image = AclImage.of(acls)
        decision = decide(policy, image, asking, question.operation, kind, question.name)
        return str(int(decision.is_allowed))
    if Kind.NO_ACL in kinds and policy.allow_if_no_acl:
        is_super = asking.principal in policy.super_users
        return str(int(is_super or not any(_denies_all(acl, question, host) for acl in acls)))
    decision = decide_by_resource_type(policy, AclImage.of(acls), asking, question.operation, kind)
    return str(int(decision.is_allowed))


def markdown_table(counts: dict[frozenset[Kind], int], questions: int) -> str:
    """Return the table of docs/guarantees/acls.md: one row for each kind."""
    lines = [
        f"| question | Kafka 4.4, and ours | Kafka 3.9.1 | differences in {questions:,} |",
        "|---|---|---|---|",
    ]
    for kind in Kind:
        count = sum(number for kinds, number in counts.items() if kind in kinds)
        lines.append(f"| {kind.value} | {count:,} |")
    return "\n".join(lines)


def _sets_of_kinds() -> Iterator[frozenset[Kind]]:
    modelled = [kind for kind in Kind if kind is not Kind.OPERATION]
    for size in range(len(modelled) + 1):
        yield from map(frozenset, combinations(modelled, size))


def _is_other(kinds: Set[Kind], acl: Acl, question: Question) -> bool:
    """Whether an ACL matches no request of this question in 3.9.1."""
    if Kind.BLOCK in kinds and "/" in acl.host:
        return True
    is_exact = acl.operation in (AclOperation.ALL, question.operation)
    return Kind.IMPLIED in kinds and question.name is None and not is_exact


def _as_nobodys(acl: Acl) -> Acl:
    return acl._replace(principal=NOBODY)


def _denies_all(acl: Acl, question: Question, host: str) -> bool:
    """Whether an ACL denies the operation on every resource of the type."""
    return (
        acl.resource_type == question.resource_type
        and (acl.pattern_type, acl.resource_name) == (PatternType.LITERAL, WILDCARD)
        and acl.permission == Permission.DENY
        and acl.operation in (AclOperation.ALL, question.operation)
        and acl.principal in (question.asking.principal, WILDCARD_PRINCIPAL)
        and matches_host(acl.host, host)
    )
