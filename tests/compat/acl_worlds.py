"""Random sets of ACLs with questions about them, for a comparison with Kafka's authorizer."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Final

from local_cluster.security.authorization.acl_image import AclImage
from local_cluster.security.authorization.decision import (
    Asking,
    Policy,
    decide,
    decide_by_resource_type,
)
from local_cluster.security.authorization.hosts import java_host
from local_cluster.wire.constants import (
    WILDCARD_PRINCIPAL,
    Acl,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)

QUESTIONS_PER_WORLD: Final = 5
# Nobody is "User:*" himself: Kafka meets an exception of its own.
PRINCIPALS: Final = (
    "User:alice",
    "User:bob",
    "User:ANONYMOUS",
    "Group:alice",
    "User:CN=alice,OU=x:y",
    "user:alice",
)
ADDRESSES: Final = (
    "10.1.2.3",
    "10.1.2.4",
    "127.0.0.1",
    "0.0.0.0",
    "255.255.255.255",
    "::1",
    "2001:db8::1",
    "2001:db8:0:1::ffff",
    "::ffff:10.1.2.3",
)
HOSTS: Final = (
    *("*",) * 8,
    *("10.1.2.3", "127.0.0.1", "0:0:0:0:0:0:0:1", "::1", "2001:db8::1", "host.example"),
    *("10.1.2.0/24", "10.1.2.3/32", "10.9.9.9/8", "0.0.0.0/0", "10.1.2.0/33", "10.1.2/24", "/"),
    *("010.001.2.0/24", "255.255.255.254/31", "10.1.2.3/", "10.1.2.256/8", "a/b"),
    *("2001:db8::/32", "::/0", "2001:db8::1/128", "::1/129", "::ffff:10.1.2.0/120", "::1/+64"),
    *("2001:db8::/-1", "fe80::/x", "2001:db8:0:1::/64"),
)
NAMES: Final = ("a", "ab", "abc", "abd", "b", "ba", "*", "*a", "hardcode", "hard", "h", "aB", "é")
TYPES: Final = (
    ResourceType.TOPIC,
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.TRANSACTIONAL_ID,
)
ASKED_OPERATIONS: Final = tuple(each for each in AclOperation if each > AclOperation.ALL)
GRANTED_OPERATIONS: Final = (AclOperation.ALL, *ASKED_OPERATIONS)


@dataclass(frozen=True)
class Question:
    asking: Asking
    operation: AclOperation
    resource_type: ResourceType
    name: str | None
    """None asks for any resource of the type."""


@dataclass(frozen=True)
class World:
    """A set of ACLs and configs, and what is asked of them."""

    policy: Policy
    acls: tuple[Acl, ...]
    questions: tuple[Question, ...]

    def as_line(self) -> str:
        """Return the world as DecideAcls.java reads it."""
        asks = [
            [q.asking.principal, q.asking.host, int(q.operation), int(q.resource_type), q.name]
            for q in self.questions
        ]
        return json.dumps(
            {
                "super": ";".join(sorted(self.policy.super_users)),
                "allow": str(self.policy.allow_if_no_acl).lower(),
                "acls": self.acls,
                "asks": asks,
            }
        )

    def decide(self) -> str:
        """Return our decisions, as DecideAcls.java prints them."""
        image = AclImage.of(self.acls)
        decided = ""
        for q in self.questions:
            asking = Asking(q.asking.principal, java_host(q.asking.host))
            decision = (
                decide_by_resource_type(self.policy, image, asking, q.operation, q.resource_type)
                if q.name is None
                else decide(self.policy, image, asking, q.operation, q.resource_type, q.name)
            )
            decided += str(int(decision.is_allowed))
        return decided


def random_world(chance: random.Random) -> World:
    """Draw a world. Names and principals are few, so that ACLs overlap."""
    principals = chance.sample(PRINCIPALS, chance.randint(1, 3))
    named = (*principals, WILDCARD_PRINCIPAL) if chance.random() < 0.6 else principals
    operations = chance.sample(GRANTED_OPERATIONS, chance.randint(1, 4))
    acls = {
        Acl(
            chance.choice(TYPES),
            chance.choice(NAMES),
            chance.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            chance.choice(named),
            chance.choice(HOSTS),
            chance.choice(operations),
            chance.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
        )
        for _ in range(chance.choice((0, 1, 2, 3, 5, 8, 13, 30)))
    }
    policy = Policy(
        super_users=frozenset(chance.sample(PRINCIPALS, chance.choice((0, 0, 0, 1, 2)))),
        allow_if_no_acl=chance.random() < 0.3,
    )
    questions = tuple(
        Question(
            Asking(
                chance.choice(principals if chance.random() < 0.8 else PRINCIPALS),
                chance.choice(ADDRESSES),
            ),
            AclOperation(chance.choice(operations))
            if chance.random() < 0.5 and operations[0] != AclOperation.ALL
            else chance.choice(ASKED_OPERATIONS),
            chance.choice(TYPES),
            None if chance.random() < 0.3 else _asked_name(chance),
        )
        for _ in range(QUESTIONS_PER_WORLD)
    )
    return World(policy, tuple(acls), questions)


def _asked_name(chance: random.Random) -> str:
    """Draw a name whose search ends in Kafka, and is right (see `decision`)."""
    name = chance.choice([each for each in NAMES if each != "*a"])
    return name if name == "*" else name + chance.choice(("", "", "x"))
