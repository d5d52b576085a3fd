"""A link that has copied must keep its names, origin and rules: others stop it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from local_cluster.client.model import TopicPartition
from mirror_maker.formats.naming import TopicNames
from mirror_maker.rules.rule_settings import Condition, RecordFilter, Transform
from tests.sim.mirror.world import TOPIC, MirrorWorld
from tests.sim.virtual_time import run_virtually

AT = TopicPartition(TOPIC, 0)
DROPS = {"filter": RecordFilter(drop=(Condition(header="test"),))}
MASKS = {"transform": (Transform(mask_field="/card"),)}


async def _reconfigured(before: dict[str, Any], after: dict[str, Any], copy: str) -> list[str]:
    """Return the failures of a worker with other settings than its predecessor; check that it
    copies
    nothing."""
    world = MirrorWorld(4, partitions=1)
    world.link_settings = before
    world.write(20)
    first = await world.worker("w")
    await world.settle(first)
    await first.stop()
    copied = world.target.partition(AT._replace(topic=copy)).log_end_offset
    assert copied > 0
    world.link_settings = after
    world.write(5)
    second = await world.worker("w")
    async with asyncio.timeout(60):
        while not second.failures():
            await asyncio.sleep(0.05)
    await second.kill()
    assert world.target.partition(AT._replace(topic=copy)).log_end_offset == copied
    for name, topic in world.target.topics.items():
        assert name == copy or not name.endswith(TOPIC) or not topic.partitions[0].log_end_offset
    return second.failures()


@pytest.mark.parametrize(
    ("before", "after", "copy"),
    [
        ({}, {"names": TopicNames(otherwise="identity")}, f"a.{TOPIC}"),
        ({"names": TopicNames(map={TOPIC: "x"})}, {}, "x"),
        ({}, {"names": TopicNames(merge=(TOPIC,))}, f"a.{TOPIC}"),
    ],
)
def test_other_names_are_refused(before: dict[str, Any], after: dict[str, Any], copy: str) -> None:
    reasons = run_virtually(_reconfigured(before, after, copy))
    assert reasons[0].startswith(f"reconfigured: {TOPIC} was copied into {copy}")


@pytest.mark.parametrize(
    ("before", "after"), [({}, {"origin": "local"}), ({"origin": "local"}, {})]
)
def test_another_origin_is_refused(before: dict[str, Any], after: dict[str, Any]) -> None:
    reasons = run_virtually(_reconfigured(before, after, f"a.{TOPIC}"))
    assert "was reconfigured" in reasons[0]
    assert "origin: local" in reasons[0]


@pytest.mark.parametrize(
    ("before", "after"), [({}, DROPS), (DROPS, {}), (DROPS, {**DROPS, **MASKS}), (MASKS, DROPS)]
)
def test_another_filter_or_transform_is_refused(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    reasons = run_virtually(_reconfigured(before, after, f"a.{TOPIC}"))
    assert "was reconfigured" in reasons[0]
    assert "records: 1-" in reasons[0]
