"""Partitions and topics that appear at the source: nothing is complete before they are known.

The checker compares what is claimed of partitions, topics and the whole source with the logs of
both clusters. It knows of a partition from the moment it exists.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from local_cluster.client.model import ClusterMetadata
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.source_listing import SourceListing
from mirror_maker.formats.completeness.listed_partitions import ListedPartitions
from tests.sim.mirror.scenarios import chaos, kill_or_overlap, until
from tests.sim.mirror.test_mirror_completeness import Watched
from tests.sim.mirror.world import TOPIC, MirrorWorld, SimWorker, VirtualClock
from tests.sim.virtual_time import run_virtually

SEEDS = range(int(os.environ.get("SIM_SEEDS", "6")))
DISCOVERY_MS = 1_000
"""As by default; the other worlds discover more often."""


def rarely_listed(seed: int) -> Watched:
    """Return a world whose mirror looks for partitions once a second."""
    watched = Watched(seed, partitions=1)
    watched.world.limits = replace(watched.world.limits, discovery_ms=DISCOVERY_MS)
    return watched


async def add_and_write(watched: Watched, topic: str) -> None:
    """Add partitions between two listings, and write to them at once."""
    world = watched.world
    world.write_ends()
    worker = await world.worker("w")
    await watched.until_complete()
    for _ in range(4):
        await asyncio.sleep(0.37)
        world.add_partition(topic).write_plain(3)
    await watched.until_complete()
    now_ms = VirtualClock().now_ms()
    await until(lambda: (watched.watch.topic_complete_through(None) or 0) > now_ms)
    await worker.stop()


@pytest.mark.parametrize("topic", [TOPIC, "new"])
def test_no_time_is_claimed_before_the_listing_that_has_the_partition(topic: str) -> None:
    watched = rarely_listed(1)
    run_virtually(watched.play(lambda: add_and_write(watched, topic)))


@pytest.mark.parametrize("topic", [TOPIC, "new"])
def test_readers_that_count_known_partitions_only_are_found_out(topic: str) -> None:
    """Plant the fault: what earlier versions claimed."""
    watched = rarely_listed(1)
    with (
        patch.object(ListedPartitions, "topics", lambda self: {}),
        patch.object(ListedPartitions, "prove", _prove_everything),
        pytest.raises(AssertionError, match="is said to be complete through"),
    ):
        run_virtually(watched.play(lambda: add_and_write(watched, topic)))


def _prove_everything(listed: ListedPartitions, statement: object) -> None:
    listed.newest_ms = VirtualClock().now_ms()


async def list_slowly(watched: Watched) -> None:
    """Let responses about topics take longer than the interval of the statements."""
    world = watched.world
    worker = await world.worker("w")
    await watched.until_complete()
    source = worker.clients.source
    metadata = source.metadata

    async def answer_late(*given: Any, **named: Any) -> ClusterMetadata:
        answer = await metadata(*given, **named)
        await asyncio.sleep(0.3)
        return answer

    with patch.object(source, "metadata", answer_late):
        for _ in range(8):
            await asyncio.sleep(0.43)
            world.add_partition().write_plain(1)
        await watched.until_complete()
    await worker.stop()


def test_a_slow_listing_proves_the_time_of_its_request() -> None:
    watched = rarely_listed(2)
    run_virtually(watched.play(lambda: list_slowly(watched)))


def test_a_listing_with_the_time_of_its_response_is_found_out() -> None:
    watched = rarely_listed(2)
    note = SourceListing.note

    def note_now(listing: SourceListing, wanted: Any, asked_ms: int) -> None:
        note(listing, wanted, VirtualClock().now_ms())

    with (
        patch.object(SourceListing, "note", note_now),
        pytest.raises(AssertionError, match="is said to be complete through"),
    ):
        run_virtually(watched.play(lambda: list_slowly(watched)))


def test_an_added_partition_holds_the_time_where_it_did_not_exist() -> None:
    """Until a worker copies it the topic is known up to the listing without it, not unknown."""
    watched = rarely_listed(3)
    world, watch = watched.world, watched.watch
    world.assignment_seconds = lambda: 5.0

    async def scenario() -> None:
        world.write_ends()
        worker = await world.worker("w")
        await watched.until_complete()
        added_ms = VirtualClock().now_ms()
        world.add_partition().write_plain(2)
        await asyncio.sleep(3)
        watch.check()
        held_ms = watch.topic_complete_through(TOPIC)
        assert held_ms is not None and added_ms - 2 * DISCOVERY_MS < held_ms <= added_ms + 1
        await watched.until_complete()
        await worker.stop()

    run_virtually(watched.play(scenario))


def test_without_listings_the_time_stands_still() -> None:
    """Fetches go on, but nobody knows whether there are more partitions."""
    watched = rarely_listed(4)
    world, watch = watched.world, watched.watch

    async def scenario() -> None:
        worker = await world.worker("w")
        await watched.until_complete()
        with patch.object(worker.clients.source, "metadata", _refuse):
            await asyncio.sleep(DISCOVERY_MS / 1000)
            stopped_ms = VirtualClock().now_ms()
            world.add_partition().write_plain(1)
            world.writers[0].write_plain(1)
            await asyncio.sleep(20)
            watch.check()
            through_ms = watch.topic_complete_through(TOPIC)
            assert through_ms is not None and through_ms <= stopped_ms
            known = watch.topic.partition(TOPIC, 0)
            assert known is not None and (known.listed_ms or 0) <= stopped_ms
            assert (known.sampled_ms or 0) > stopped_ms + 10_000, "fetches have gone on"
        await watched.until_complete()
        await worker.stop()

    run_virtually(watched.play(scenario))


async def _refuse(*given: object, **named: object) -> ClusterMetadata:
    raise KafkaError(ErrorCode.network_exception, "refused by the test")


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_chaos(seed: int) -> None:
    """Partitions and topics appear while messages are lost and workers are killed."""
    watched = Watched(seed)
    world, random = watched.world, Random(seed)
    world.limits = replace(world.limits, discovery_ms=(50, 300, DISCOVERY_MS)[seed % 3])
    world.assignment_seconds = lambda: random.uniform(0, 2)
    asked_ms: list[int] = []

    async def disturb(
        world: MirrorWorld, random: Random, workers: list[SimWorker], name: str
    ) -> None:
        asked_ms.append(VirtualClock().now_ms())
        if random.random() < 0.4:
            await kill_or_overlap(world, random, workers, name)
            return
        for _ in range(random.randint(1, 2)):
            world.add_partition(random.choice([TOPIC, "u", "v"])).write_plain(2)

    async def scenario() -> None:
        await chaos(
            world, random, batches=20, batches_per_turn_max=15, turns=(3, 8), disturb=disturb
        )
        world.write_ends()
        worker = await world.worker("last")
        await watched.until_complete()
        asked_ms.append(VirtualClock().now_ms() - 2 * DISCOVERY_MS)
        await asyncio.sleep(2)
        found = [watched.watch.check_cut(time_ms) for time_ms in asked_ms]
        assert found[-1], "the last cut is not refused"
        await worker.stop()

    run_virtually(watched.play(scenario))
