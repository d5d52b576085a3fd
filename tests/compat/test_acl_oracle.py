"""Random ACL sets are decided as by the StandardAuthorizer of Kafka 4.4, without one difference.

The AclAuthorizer of Kafka 3.9.1 gets the same questions. Where the two Kafkas differ, the kind of
the difference has to be known, and the StandardAuthorizer is right.

`make acl-oracle` asks 100,000 questions, the suite 2,000 (ACL_CASES). ACL_SEED draws other ones.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from local_cluster.security.authorization.decision import Asking, Policy
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from tests.compat.acl_differences import NOT_KNOWN, Kind, decide_with, kinds_of, markdown_table
from tests.compat.acl_worlds import QUESTIONS_PER_WORLD, Question, World, random_world
from tests.support.java_process import run_java
from tests.support.kafka_in_zookeeper_mode import zookeeper_mode_jars

pytestmark = [pytest.mark.real, pytest.mark.oracle]

HERE: Final = Path(__file__).parent
STANDARD_AUTHORIZER: Final = str(HERE / "java" / "DecideAcls.java")
ACL_AUTHORIZER: Final = str(HERE / "zookeeper_mode" / "DecideByAclAuthorizer.java")
PAGE: Final = HERE.parents[1] / "docs" / "guarantees" / "acls.md"
CASES: Final = int(os.environ.get("ACL_CASES", "2000"))
SEED: Final = int(os.environ.get("ACL_SEED", "1276"))


def world_of(acl: Acl, operation: AclOperation, name: str | None, *, default: bool) -> World:
    """One ACL and one question of alice."""
    asked = Question(Asking("User:alice", "10.1.2.3"), operation, ResourceType.GROUP, name)
    return World(Policy(allow_if_no_acl=default), (acl,), (asked,))


def allowed_to_alice(name: str, host: str, operation: AclOperation) -> Acl:
    return Acl(
        ResourceType.GROUP,
        name,
        PatternType.LITERAL,
        "User:alice",
        host,
        operation,
        Permission.ALLOW,
    )


DENIED_EVERYWHERE: Final = allowed_to_alice("*", "*", AclOperation.READ)._replace(
    permission=Permission.DENY
)
BESIDE_WILDCARDS: Final = world_of(DENIED_EVERYWHERE, AclOperation.READ, "*x", default=True)
"""The documented difference from Kafka 4.4: a wildcard covers every name, there not "*x"."""
EXAMPLES: Final = {
    Kind.BLOCK: world_of(
        allowed_to_alice("g", "10.1.2.0/24", AclOperation.READ),
        AclOperation.READ,
        "g",
        default=False,
    ),
    Kind.IMPLIED: world_of(
        allowed_to_alice("*", "*", AclOperation.READ), AclOperation.DESCRIBE, None, default=False
    ),
    Kind.NO_ACL: world_of(
        allowed_to_alice("hardcode", "*", AclOperation.DELETE),
        AclOperation.READ,
        None,
        default=True,
    ),
    Kind.OPERATION: world_of(
        allowed_to_alice("g", "*", AclOperation.ALL),
        AclOperation.TWO_PHASE_COMMIT,
        "g",
        default=False,
    ),
}
"""For each kind a world in which nothing else makes the difference."""


async def told_by_both(worlds: Sequence[World]) -> tuple[list[str], list[str]]:
    """The decisions of Kafka 4.4 and of Kafka 3.9.1, a line for each world."""
    lines = "".join(f"{world.as_line()}\n" for world in worlds)
    told = await asyncio.gather(
        run_java(STANDARD_AUTHORIZER, lines=lines),
        run_java(ACL_AUTHORIZER, lines=lines, jars=zookeeper_mode_jars()),
    )
    standard, older = (each.splitlines() for each in told)
    assert len(standard) == len(older) == len(worlds)
    return standard, older


async def test_decisions_are_those_of_the_standard_authorizer() -> None:
    chance = random.Random(SEED)
    worlds = [random_world(chance) for _ in range(CASES // QUESTIONS_PER_WORLD)]
    standard, older = await told_by_both(worlds)
    decided = [world.decide() for world in worlds]
    different = [
        describe(world, mine, theirs)
        for world, mine, theirs in zip(worlds, decided, standard, strict=True)
        if mine != theirs
    ]
    allowed = "".join(decided).count("1")
    print(f"\n{CASES} questions, {allowed} allowed, {len(different)} worlds with a difference")
    assert not different, "\n\n".join(different[:5])
    assert 0.1 < allowed / CASES < 0.9, "worlds that decide one way prove little"
    print(markdown_table(kinds_between(worlds, standard, older), CASES))


def kinds_between(
    worlds: Sequence[World], standard: Sequence[str], older: Sequence[str]
) -> Counter[frozenset[Kind]]:
    """Count the differences between the two Kafkas by kind; fails on an unknown one."""
    counts: Counter[frozenset[Kind]] = Counter()
    for world, of_4_4, of_3_9_1 in zip(worlds, standard, older, strict=True):
        for question, new, old in zip(world.questions, of_4_4, of_3_9_1, strict=True):
            shown = f"{world.policy} {world.acls} {question}: 4.4 {new}, 3.9.1 {old}"
            # The kinds are not only excuses: together they tell all of its decisions.
            assert old in (NOT_KNOWN, decide_with(set(Kind), world, question)), shown
            if new != old:
                kinds = kinds_of(world, question, old)
                assert kinds, shown
                counts[kinds] += 1
    return counts


async def test_every_kind_of_difference_between_two_kafkas_has_an_example() -> None:
    worlds = [*EXAMPLES.values(), BESIDE_WILDCARDS]
    standard, older = await told_by_both(worlds)
    decided = [world.decide() for world in worlds]
    assert decided[:-1] == standard[:-1]
    assert (decided[-1], standard[-1], older[-1]) == ("0", "1", "0")
    for kind, world, new, old in zip(EXAMPLES, EXAMPLES.values(), standard, older, strict=False):
        assert new != old, kind
        assert kinds_of(world, world.questions[0], old) == frozenset({kind})


@pytest.mark.parametrize("kind", Kind)
def test_the_page_of_the_guarantees_lists_every_kind(kind: Kind) -> None:
    assert f"| {kind.value} |" in PAGE.read_text()


def describe(world: World, mine: str, theirs: str) -> str:
    lines = [f"{world.policy}", *(f"  {acl}" for acl in world.acls)]
    for question, ours, kafkas in zip(world.questions, mine, theirs, strict=True):
        if ours != kafkas:
            lines.append(f"{question}: ours {ours}, Kafka's {kafkas}")
    return "\n".join(lines)
