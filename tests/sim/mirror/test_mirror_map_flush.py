"""How soon the map has what was copied."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats.records import Block
from mirror_maker.link import map_flusher
from mirror_maker.link.map_flusher import BLOCK_RUNS_MIN, EARLY_FLUSHES
from tests.sim.mirror.world import LIMITS, TOPIC, MirrorWorld, SimWorker
from tests.sim.virtual_time import run_virtually

FLUSH_MS = 10_000
EARLY_S = FLUSH_MS / EARLY_FLUSHES / 1000


class MapWrites:
    """The writes of one worker's map from here on: virtual time, partitions of the blocks."""

    def __init__(self, worker: SimWorker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[float, list[int]]] = []
        self.refusals = 0
        """Writes that are still to be refused."""
        store = worker.link.map_store
        append = store.append

        async def write(records: Sequence[Any], deleted: Sequence[bytes] = ()) -> None:
            at = asyncio.get_running_loop().time()
            if self.refusals:
                self.refusals -= 1
                self.done.append((at, []))
                raise KafkaError(ErrorCode.network_exception, "the map cannot be written")
            await append(records, deleted)
            blocks = [record for record in records if isinstance(record, Block)]
            self.done.append((at, [block.flow.partition for block in blocks]))

        monkeypatch.setattr(store, "append", write)

    async def until(self, count: int) -> list[tuple[float, list[int]]]:
        """Wait for so many writes, and return them."""
        async with asyncio.timeout(20 * FLUSH_MS / 1000):
            while len(self.done) < count:
                await asyncio.sleep(0.05)
        return self.done


async def _running_worker(
    monkeypatch: pytest.MonkeyPatch, policy: str, partitions: int = 1
) -> tuple[MirrorWorld, MapWrites]:
    """Return a world whose worker has written its map once, and the writes from then on."""
    world = MirrorWorld(60, partitions=partitions)
    world.limits = replace(LIMITS, map_flush_ms=FLUSH_MS)
    world.source.topics[TOPIC].configs["cleanup.policy"] = policy
    for writer in world.writers:
        writer.write_plain(2)
    worker = await world.worker("w")
    writes = MapWrites(worker, monkeypatch)
    mapped: set[int] = set()
    while len(mapped) < partitions:
        mapped.update((await writes.until(len(writes.done) + 1))[-1][1])
    writes.done.clear()
    return world, writes


@pytest.mark.parametrize(
    ("policy", "is_early"), [("compact", True), ("compact,delete", True), ("delete", False)]
)
def test_the_map_of_a_compacted_topic_is_written_early(
    policy: str, is_early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        world, writes = await _running_worker(monkeypatch, policy)
        waited = []
        for _ in range(10):
            start = asyncio.get_running_loop().time()
            world.writers[0].write_plain(2)
            waited.append((await writes.until(1))[0][0] - start)
            writes.done.clear()
        assert (max(waited) <= EARLY_S + 1) == is_early, waited

    run_virtually(scenario())


def test_an_early_write_is_bounded_and_leaves_no_flow_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        world, writes = await _running_worker(monkeypatch, "compact", partitions=5)
        await asyncio.sleep(EARLY_FLUSHES * EARLY_S)
        monkeypatch.setattr(map_flusher, "EARLY_RUNS_MAX", 2 * BLOCK_RUNS_MIN)
        for writer in world.writers:
            writer.write_plain(2)
        mapped: list[int] = []
        while len(mapped) < 5:
            mapped = [at for _, blocks in await writes.until(len(writes.done) + 1) for at in blocks]
        assert sorted(mapped) == [0, 1, 2, 3, 4]
        early = [len(blocks) for _, blocks in writes.done]
        assert early[:2] == [2, 2], "or the rest with a regular write"

    run_virtually(scenario())


def test_a_map_that_cannot_be_written_is_not_tried_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        world, writes = await _running_worker(monkeypatch, "compact")
        writes.refusals = 4
        world.writers[0].write_plain(2)
        tried = [at for at, _ in await writes.until(4)]
        # The first one may have been early.
        pauses = [later - earlier for earlier, later in pairwise(tried[1:])]
        assert all(pause >= FLUSH_MS / 1000 for pause in pauses), pauses
        assert (await writes.until(5))[-1][1] == [0]

    run_virtually(scenario())
