"""Source logs that are replaced while the mirror copies: truncated, overwritten, re-created."""

from __future__ import annotations

import asyncio
from random import Random

import numpy as np
import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import Record
from local_cluster.wire.fetch import FetchPartition, PartitionFetchResponse
from mirror_maker.formats.naming import remote_topic
from mirror_maker.model import FlowState
from mirror_maker.rules.trouble import Policies, Trouble
from spark_global.source.maps import mapped_partitions
from spark_global.source.provenance import UNKNOWN_OFFSET
from tests.sim.kafka_double.source import SimSource
from tests.sim.mirror.world import TOPIC, MirrorWorld, SimWorker, SourceWriter, read_map_topic
from tests.sim.virtual_time import run_virtually

SKIP = Policies(truncated="skip", recreated="skip", out_of_range="skip")


def contents(records: list[Record]) -> list[tuple[object, ...]]:
    return [record[1:] for record in records]


async def _settled_world(seed: int, **policies: str) -> tuple[MirrorWorld, SimWorker]:
    world = MirrorWorld(seed, partitions=1)
    world.link_settings = {"on": Policies(**{**_AS_DICT, **policies})}  # type: ignore[arg-type]
    world.write(20)
    worker = await world.worker("w")
    await world.settle(worker)
    return world, worker


_AS_DICT = {"truncated": "skip", "recreated": "skip", "out_of_range": "skip"}


def _cut_back(world: MirrorWorld, records_left: int) -> int:
    """Truncate the source so that at least as many copyable records are lost; return its end."""
    writer = world.writers[0]
    writer.cut_back(writer.expected[-records_left].offset)
    return writer.partition.log_end_offset


def _write_beyond(world: MirrorWorld, offset: int) -> None:
    while world.writers[0].partition.log_end_offset <= offset:
        world.writers[0].write()


def _check_generations(world: MirrorWorld, before: list[Record]) -> None:
    """Check that the target has the copies of the old log, then those of the new one from where
    they
    diverge, and that the map of the new one is exact."""
    at = world.partitions[0]
    gap = world.gaps(at)[-1]
    assert gap.source_to is None
    anew = [r for r in world.writers[0].expected if r.offset >= gap.source_from]
    if gap.reason == Trouble.RECREATED:
        anew = world.writers[0].expected
    copies = world.copies(at)
    assert contents(copies) == contents(before) + contents(anew)
    common = [] if gap.reason == Trouble.RECREATED else [
        record for record in before if record.offset < gap.source_from
    ]  # fmt: skip
    assert common == [r for r in world.writers[0].expected if r in common], "the logs diverge there"
    topic = read_map_topic(world.target)
    flow = topic.latest_flow(at.topic, at.partition)
    assert flow is not None
    offset_map = topic.offset_map(flow)
    assert offset_map is not None
    place = {
        original.offset: copy.offset
        for original, copy in zip(
            common + anew, copies[: len(common)] + copies[len(before) :], strict=True
        )
    }
    mapped = {
        run.source_offset + n: run.target_offset + n
        for run in offset_map.runs()
        for n in range(run.records_count)
    }
    assert mapped == place


def _check_origins(world: MirrorWorld, generations: list[list[Record]]) -> None:
    """Check that a reader finds the source offset of every copy, in each topic of that name."""
    at = world.partitions[0]
    (mapped,) = mapped_partitions({"l": read_map_topic(world.target)})[
        TopicPartition(remote_topic("a", at.topic), at.partition)
    ]
    found = [
        (topic_id, offset)
        for topic_id, runs in [
            *((each.topic_id, each.runs) for each in mapped.former),
            (mapped.topic_id, mapped.runs),
        ]
        for offset in runs.sources_of(np.array([each.offset for each in world.copies(at)])).tolist()
        if offset != UNKNOWN_OFFSET
    ]
    ids = [*(each.topic_id for each in mapped.former), mapped.topic_id]
    assert None not in ids and len({*ids}) == len(generations)
    assert found == [
        (topic_id, record.offset)
        for topic_id, records in zip(ids, generations, strict=True)
        for record in records
    ]


@pytest.mark.parametrize("seed", range(12))
def test_a_truncated_source_is_copied_again_from_where_it_diverges(seed: int) -> None:
    """The mirror keeps running. New records may or may not reach its position before it looks."""

    async def scenario() -> None:
        world, worker = await _settled_world(seed)
        before = list(world.writers[0].expected)
        end = _cut_back(world, 8)
        if seed % 2:
            _write_beyond(world, before[-1].offset + 5)
        else:
            await asyncio.sleep(1)
            world.write(10)
        await _until_gap(world, worker)
        world.write(5)
        await world.settle(worker)
        (gap,) = world.gaps(world.partitions[0])
        assert gap.reason == Trouble.TRUNCATED
        assert gap.source_from <= before[-1].offset
        again = [record.offset for record in before if record.offset >= gap.source_from]
        assert min(again) >= min(end, before[-8].offset), "what is still there is not copied again"
        _check_generations(world, before)
        await worker.stop()

    run_virtually(scenario())


async def _until_gap(world: MirrorWorld, worker: SimWorker) -> None:
    async with asyncio.timeout(60):
        while not world.gaps(world.partitions[0]):
            await asyncio.sleep(0.05)
        while worker.flows[0].replicator is None:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("seed", [*range(12), 80])
def test_a_source_overwritten_while_no_worker_ran_is_detected(seed: int) -> None:
    """After a restart there is no epoch to fetch with; the last copied record shows the change."""

    async def scenario() -> None:
        world, worker = await _settled_world(seed)
        await worker.stop()
        before = list(world.writers[0].expected)
        end = _cut_back(world, 6)
        # Without holes: if compaction may have taken the copied records, nobody can tell.
        while end <= before[-1].offset:
            world.writers[0].write_plain(2)
            end = world.writers[0].partition.log_end_offset
        _write_beyond(world, before[-1].offset + 10)
        second = await world.worker("next")
        await _until_gap(world, second)
        await world.settle(second)
        _check_generations(world, before)
        await second.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("policy", ["fail", "pause"])
def test_a_truncated_source_stops_the_flow_by_default(policy: str) -> None:
    async def scenario() -> None:
        world, worker = await _settled_world(3, truncated=policy)
        before = list(world.writers[0].expected)
        _cut_back(world, 6)
        _write_beyond(world, before[-1].offset + 10)
        state = FlowState.FAILED if policy == "fail" else FlowState.PAUSED
        await worker.until_troubled(Trouble.TRUNCATED, state)
        assert contents(world.copies(world.partitions[0])) == contents(before)
        assert world.gaps(world.partitions[0]) == []
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_a_follower_with_a_short_log_is_not_taken_for_the_leader(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that leads no more reports where its own log ends."""
    answer = SimSource._read_entry
    answered: list[int] = []

    def answer_as_follower(
        source: SimSource, node_id: int, entry: FetchPartition
    ) -> PartitionFetchResponse:
        response = answer(source, node_id, entry)
        if len(answered) == 3 or entry.fetch_offset == 0 or not response.topic_id:
            return response
        answered.append(entry.fetch_offset)
        return response._replace(diverging_epoch=(0, 0), records=memoryview(b""))

    async def scenario() -> None:
        world, worker = await _settled_world(5, truncated=policy)
        monkeypatch.setattr(SimSource, "_read_entry", answer_as_follower)
        _write_beyond(world, world.writers[0].expected[-1].offset + 20)
        await world.settle(worker)
        assert len(answered) == 3
        assert contents(world.copies(world.partitions[0])) == contents(world.writers[0].expected)
        assert world.gaps(world.partitions[0]) == []
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("stops", [False, True], ids=["runs on", "restarted"])
def test_a_recreated_topic_is_copied_as_a_new_generation(stops: bool) -> None:
    async def scenario() -> None:
        world, worker = await _settled_world(8)
        before = list(world.writers[0].expected)
        if stops:
            await worker.stop()
        world.source.create(TOPIC, 1)
        world.writers[0] = SourceWriter(world.source.partition(world.partitions[0]), Random(9))
        _write_beyond(world, 10)
        if stops:
            worker = await world.worker("next")
        await _until_gap(world, worker)
        world.write(10)
        await world.settle(worker)
        (gap,) = world.gaps(world.partitions[0])
        assert (gap.reason, gap.source_to) == (Trouble.RECREATED, None)
        assert gap.source_from > before[-1].offset
        _check_generations(world, before)
        # And once more, each with its own epoch.
        again, middle = contents(world.copies(world.partitions[0])), world.writers[0].expected
        world.source.create(TOPIC, 1)
        world.writers[0] = SourceWriter(world.source.partition(world.partitions[0]), Random(10))
        _write_beyond(world, 5)
        while len(world.gaps(world.partitions[0])) < 2:
            await asyncio.sleep(0.05)
        await asyncio.sleep(10)
        await world.settle(worker)
        copies = contents(world.copies(world.partitions[0]))
        assert copies == again + contents(world.writers[0].expected)
        _check_origins(world, [before, middle, world.writers[0].expected])
        await worker.stop()

    run_virtually(scenario())


def test_copies_deleted_at_the_target_do_not_count_as_different() -> None:
    """Copies that the target's retention took cannot be compared, and are not copied again."""

    async def scenario() -> None:
        world, worker = await _settled_world(5)
        for _ in range(30):
            world.writers[0].write_plain(2)
        await world.settle(worker)
        copy = world.target.partition(worker.flows[0].target)
        copy.delete_below(copy.batches[-4][0].base_offset)
        before = list(world.writers[0].expected)
        _cut_back(world, 3)
        _write_beyond(world, before[-1].offset + 5)
        await _until_gap(world, worker)
        (gap,) = world.gaps(world.partitions[0])
        assert gap.source_from >= before[-5].offset
        await worker.stop()

    run_virtually(scenario())
