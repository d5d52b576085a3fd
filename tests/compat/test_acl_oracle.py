"""Random ACL sets are decided as by the StandardAuthorizer of Kafka 4.4, without one difference.

`make acl-oracle` asks 100,000 questions, the suite 2,000 (ACL_CASES). ACL_SEED draws other ones.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from local_cluster.security.authorization.decision import Asking, Policy
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from tests.compat.acl_worlds import QUESTIONS_PER_WORLD, Question, World, random_world
from tests.support.java_process import run_java

pytestmark = [pytest.mark.real, pytest.mark.oracle]

PROGRAM = str(Path(__file__).parent / "java" / "DecideAcls.java")
CASES = int(os.environ.get("ACL_CASES", "2000"))
SEED = int(os.environ.get("ACL_SEED", "1276"))


async def test_decisions_are_those_of_the_standard_authorizer() -> None:
    chance = random.Random(SEED)
    worlds = [random_world(chance) for _ in range(CASES // QUESTIONS_PER_WORLD)]
    told = await run_java(PROGRAM, lines="".join(f"{world.as_line()}\n" for world in worlds))
    kafkas = told.splitlines()
    assert len(kafkas) == len(worlds)
    decided = [world.decide() for world in worlds]
    different = [
        describe(world, mine, theirs)
        for world, mine, theirs in zip(worlds, decided, kafkas, strict=True)
        if mine != theirs
    ]
    allowed = "".join(decided).count("1")
    print(f"{CASES} questions, {allowed} allowed, {len(different)} worlds with a difference")
    assert not different, "\n\n".join(different[:5])
    assert 0.1 < allowed / CASES < 0.9, "worlds that decide one way prove little"


async def test_kafka_does_not_find_wildcards_for_names_that_begin_with_one() -> None:
    """The documented difference: a wildcard covers every name, in Kafka not "*x"."""
    denied = Acl(
        ResourceType.GROUP,
        "*",
        PatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        Permission.DENY,
    )
    asked = Question(Asking("User:alice", "127.0.0.1"), AclOperation.READ, ResourceType.GROUP, "*x")
    world = World(Policy(allow_if_no_acl=True), (denied,), (asked,))
    told = await run_java(PROGRAM, lines=f"{world.as_line()}\n")
    assert (world.decide(), told.strip()) == ("0", "1")


def describe(world: World, mine: str, theirs: str) -> str:
    lines = [f"{world.policy}", *(f"  {acl}" for acl in world.acls)]
    for question, ours, kafkas in zip(world.questions, mine, theirs, strict=True):
        if ours != kafkas:
            lines.append(f"{question}: ours {ours}, Kafka's {kafkas}")
    return "\n".join(lines)
