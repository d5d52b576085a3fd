"""The mirror in trouble: what stops, what is retried, what is skipped with a journal entry."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, Record, encode_batch
from local_cluster.records.header import BatchHeader
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.copy.replicator import PartitionReplicator
from mirror_maker.flow import trouble_handler
from mirror_maker.model import FlowState, LinkState, UncopyableBatchError
from mirror_maker.rules.trouble import Policies, Trouble
from mirror_maker.worker.status import link_status
from tests.sim.mirror.scenarios import SOME_OR_EVERY_STEP, chaos, kill_at_every_step, until
from tests.sim.mirror.world import LIMITS, MirrorWorld, SourceWriter
from tests.sim.virtual_time import run_virtually


def _refuse_first_partition(world: MirrorWorld, code: ErrorCode) -> None:
    def refuse(at: TopicPartition, header: BatchHeader) -> ErrorCode | None:
        is_copy = at.topic.startswith("a.")
        return code if is_copy and at.partition == 0 and header.producer_id >= 0 else None

    world.target.refuse = refuse


def test_a_paused_partition_is_retried_until_the_trouble_is_gone() -> None:
    async def scenario() -> None:
        world = MirrorWorld(21)
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        _refuse_first_partition(world, ErrorCode.invalid_timestamp)
        world.write(30)
        flow = await worker.until_troubled(Trouble.TIMESTAMP, FlowState.PAUSED)
        assert flow.source == world.partitions[0]
        assert "refuses" in (flow.reason or "")
        assert worker.link.state() is LinkState.DEGRADED
        await asyncio.sleep(30)  # many pauses, each bounded
        copied = len(world.copies(world.partitions[1]))
        assert copied == len(world.writers[1].expected), "the other partition continues"
        world.target.refuse = lambda at, header: None
        started_s = asyncio.get_running_loop().time()
        await world.settle(worker)
        waited_ms = (asyncio.get_running_loop().time() - started_s) * 1000
        assert waited_ms <= worker.link.limits.pause_ms_max + 5_000
        world.check_copies()
        world.check_map(complete=True)
        assert flow.trouble is None
        await worker.stop()

    run_virtually(scenario())


def test_a_failed_partition_waits_for_an_operator() -> None:
    async def scenario() -> None:
        world = MirrorWorld(22)
        world.link_settings = {"on": Policies(timestamp="fail")}
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        _refuse_first_partition(world, ErrorCode.invalid_timestamp)
        world.write(30)
        await worker.until_troubled(Trouble.TIMESTAMP, FlowState.FAILED)
        world.target.refuse = lambda at, header: None
        await asyncio.sleep(20)
        flow = worker.link.flows[world.partitions[0]]
        assert flow.state is FlowState.FAILED, "nobody asked"
        assert worker.link.retry("other", None) == []
        assert worker.link.retry(None, None) == [world.partitions[0]]
        while worker.failures():
            await asyncio.sleep(0.01)
        await world.settle(worker)
        world.check_copies()
        await worker.stop()

    run_virtually(scenario())


def test_a_link_reports_which_partition_is_stopped_and_why() -> None:
    async def scenario() -> None:
        world = MirrorWorld(28)
        world.link_settings = {"on": Policies(timestamp="fail")}
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        assert worker.link.reason is None
        _refuse_first_partition(world, ErrorCode.invalid_timestamp)
        world.write(30)
        flow = await worker.until_troubled(Trouble.TIMESTAMP, FlowState.FAILED)
        told = link_status(worker.link)
        assert (told["state"], told["standing_still_more"]) == ("DEGRADED", 0)
        assert told["reason"] == f"t-0 is FAILED (timestamp): {flow.reason}"
        assert told["standing_still"] == [
            {
                "topic": "t",
                "partition": 0,
                "state": "FAILED",
                "trouble": "timestamp",
                "reason": flow.reason,
            }
        ]
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_cluster_with_an_overdue_response_is_down_before_the_request_fails(
    side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped broker keeps its connections, and a request to it fails only after 30 s."""

    async def scenario() -> None:
        world = MirrorWorld(30)
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        client = worker.clients.source if side == "source" else worker.clients.sink
        answer = client.metadata
        is_silent = asyncio.Event()
        is_awake = asyncio.Event()

        async def silence(topics: Any = None, **options: Any) -> Any:
            is_silent.set()
            await is_awake.wait()
            return await answer(topics, **options)

        monkeypatch.setattr(client, "metadata", silence)
        await is_silent.wait()
        await asyncio.sleep(4)
        assert worker.link.state() is LinkState.RUNNING, "not every late response is an outage"
        await asyncio.sleep(2)
        down = {"source": LinkState.SOURCE_DOWN, "target": LinkState.TARGET_DOWN}[side]
        assert (worker.link.state(), worker.link.reason) == (down, "no answer for 6 s")
        is_awake.set()
        await asyncio.sleep(1)
        assert (worker.link.state(), worker.link.reason) == (LinkState.RUNNING, None)
        await worker.stop()

    run_virtually(scenario())


def test_a_source_broker_that_leads_nothing_may_be_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its partitions moved to another broker when it was killed, and it may lead nothing again."""

    async def scenario() -> None:
        world = MirrorWorld(31)
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        polls = worker.clients.polls
        fetch, killed = polls.fetch_in_session, 0

        async def refuse(node_id: int, *arguments: Any, **options: Any) -> Any:
            if node_id == killed:
                raise KafkaError(ErrorCode.network_exception, "connection refused")
            return await fetch(node_id, *arguments, **options)

        monkeypatch.setattr(polls, "fetch_in_session", refuse)
        await until(lambda: worker.link.state() is LinkState.SOURCE_DOWN)
        for at in world.partitions:
            if world.source.leaders[at] == killed:
                world.source.move_leader(at)
        world.write(10)
        await world.settle(worker)
        await until(lambda: worker.link.state() is LinkState.RUNNING)
        assert worker.link.reason is None
        await worker.stop()

    run_virtually(scenario())


def test_authorization_lost_and_regained() -> None:
    async def scenario() -> None:
        world = MirrorWorld(23)
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        world.source.denied.add("t")
        world.write(10)
        await worker.until_troubled(Trouble.UNAUTHORIZED, FlowState.PAUSED)
        world.source.denied.clear()
        await world.settle(worker)
        _refuse_first_partition(world, ErrorCode.topic_authorization_failed)
        world.write(30)
        flow = await worker.until_troubled(Trouble.UNAUTHORIZED, FlowState.PAUSED)
        assert flow.source == world.partitions[0]
        world.target.refuse = lambda at, header: None
        await world.settle(worker)
        world.check_copies()
        world.check_map(complete=True)
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_hidden_topic_pauses_its_flow_and_does_not_count_as_deleted(
    side: str,
) -> None:
    async def scenario() -> None:
        world = MirrorWorld(29)
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        cluster, topic = {"source": (world.source, "t"), "target": (world.target, "a.t")}[side]
        cluster.hidden.add(topic)
        world.write(10)
        flow = await worker.until_troubled(Trouble.UNAUTHORIZED, FlowState.PAUSED)
        await asyncio.sleep(30)  # the pauses grow
        assert flow.current_state() is FlowState.PAUSED
        assert f"at the {side}" in (flow.reason or "")
        cluster.hidden.clear()
        started_s = asyncio.get_running_loop().time()
        await world.settle(worker)
        waited_ms = (asyncio.get_running_loop().time() - started_s) * 1000
        assert waited_ms < 10_000, "discovery finds it, and nobody waits for the pause to end"
        world.check_copies()
        world.check_map(complete=True)
        await worker.stop()

    run_virtually(scenario())


def test_a_copy_without_a_leader_frees_its_bytes_and_reports_the_reason() -> None:
    async def scenario() -> None:
        world = MirrorWorld(28)
        world.limits = replace(LIMITS, pending_bytes_max=LIMITS.partition_pending_bytes_max)
        worker = await world.worker("w")
        for writer in world.writers:
            writer.write_plain(5)
        await world.settle(worker)
        stuck, other = (worker.link.flows[at] for at in world.partitions)
        leader = world.target.leaders[stuck.target]
        directory = worker.link.directory

        async def lead(node_id: int) -> None:
            world.target.leaders[stuck.target] = node_id
            while (directory.target_leader(stuck.target) is None) != (node_id < 0):
                await asyncio.sleep(0.01)

        await lead(-1)
        await lead(leader)
        assert stuck.restarts == 0, "while nothing is to be written no proof is needed"
        await lead(-1)
        for _ in range(100):
            for writer in world.writers:
                writer.write_plain(5)
        async with asyncio.timeout(120):
            while len(world.copies(other.source)) < len(world.writers[1].expected):
                await asyncio.sleep(0.05)
        assert stuck.replicator is None
        assert stuck.reason == f"waits for {stuck.target} on the target"
        await lead(leader)
        await world.settle(worker)
        world.check_copies()
        world.check_map(complete=True)
        await worker.stop()

    run_virtually(scenario())


def test_a_topic_without_readable_configs_is_not_copied_and_holds_up_no_other() -> None:
    async def scenario() -> None:
        world = MirrorWorld(31)
        world.write(10)
        world.source.create("u", 1)
        world.source.denied.add("u")
        world.link_settings = {"topics": ("t", "u")}
        worker = await world.worker("w")
        worker.link.assign([*world.partitions, TopicPartition("u", 0)])

        def is_copied(at: TopicPartition, writer: SourceWriter) -> bool:
            is_there = f"a.{at.topic}" in world.target.topics
            return is_there and len(world.copies(at)) == len(writer.expected)

        async with asyncio.timeout(60):
            while not all(map(is_copied, world.partitions, world.writers)):
                await asyncio.sleep(0.05)
        assert "a.u" not in world.target.topics
        world.source.denied.clear()
        async with asyncio.timeout(60):
            while "a.u" not in world.target.topics:
                await asyncio.sleep(0.05)
        world.check_copies()
        await worker.stop()

    run_virtually(scenario())


SKIP = Policies(
    out_of_range="skip", corrupt="skip", too_large="skip", unsupported_codec="skip",
    timestamp="skip", rejected="skip",
)  # fmt: skip


def _is_bad(record: Record) -> bool:
    """Refuse one record in eight by its content, so that every worker meets the same ones."""
    return (record.value or record.key or b"0")[-1] % 8 == 3


def _refuse_bad_records(world: MirrorWorld, code: ErrorCode) -> None:
    world.link_settings = {"on": SKIP}
    world.target.refuse_records = lambda records: code if any(map(_is_bad, records)) else None


def _check_skipped(world: MirrorWorld, reason: Trouble) -> None:
    """Check that the journal has exactly the bad records, each once."""
    for at, writer in zip(world.partitions, world.writers, strict=True):
        gaps = world.gaps(at)
        assert [gap.reason for gap in gaps] == [reason] * len(gaps)
        assert all(gap.records_count == 1 for gap in gaps)
        skipped = [r for r in writer.expected if r not in world.expected(at)]
        assert skipped == [r for r in writer.expected if _is_bad(r)]
        assert len(gaps) == len(skipped), at


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (ErrorCode.invalid_timestamp, Trouble.TIMESTAMP),
        (ErrorCode.invalid_record, Trouble.REJECTED),
        (ErrorCode.message_too_large, Trouble.TOO_LARGE),
    ],
)
def test_only_the_refused_records_are_skipped(code: ErrorCode, reason: Trouble) -> None:
    async def scenario() -> None:
        world = MirrorWorld(31)
        _refuse_bad_records(world, code)
        world.write(40)
        worker = await world.worker("w")
        await world.settle(worker)
        world.write(10)
        await world.settle(worker)
        _check_skipped(world, reason)
        world.check_copies()
        world.check_map(complete=True)
        gaps = worker.flows[0].gaps()
        assert gaps, "the status shows them"
        await worker.stop()

    run_virtually(scenario())


def test_batches_over_the_limit_are_split_whatever_the_policy() -> None:
    async def scenario() -> None:
        world = MirrorWorld(32)

        def refuse(at: TopicPartition, header: BatchHeader) -> ErrorCode | None:
            is_data = not at.topic.endswith(".internal")
            return ErrorCode.message_too_large if is_data and header.size_bytes > 110 else None

        world.target.refuse = refuse
        world.write(60)
        worker = await world.worker("w")
        await world.settle(worker)
        world.check_copies()
        world.check_map(complete=True)
        assert not any(world.gaps(at) for at in world.partitions)
        await worker.stop()

    run_virtually(scenario())


def test_a_codec_that_the_target_refuses_is_skipped_batch_by_batch() -> None:
    async def scenario() -> None:
        world = MirrorWorld(33)
        world.link_settings = {"on": SKIP}

        def refuse(at: TopicPartition, header: BatchHeader) -> ErrorCode | None:
            return ErrorCode.unsupported_compression_type if header.codec == 3 else None

        world.target.refuse = refuse
        world.write(60)
        worker = await world.worker("w")
        await world.settle(worker)
        world.check_copies()
        world.check_map(complete=True)
        for at, writer in zip(world.partitions, world.writers, strict=True):
            gaps = world.gaps(at)
            assert {gap.reason for gap in gaps} == {Trouble.UNSUPPORTED_CODEC}
            missing = len(writer.expected) - len(world.expected(at))
            assert sum(gap.records_count or 0 for gap in gaps) == missing > 0
        await worker.stop()

    run_virtually(scenario())


def test_retention_overtakes_and_copying_continues_after_the_gap() -> None:
    async def scenario() -> None:
        world = MirrorWorld(34, partitions=1)
        world.link_settings = {"on": SKIP}
        world.write(20)
        worker = await world.worker("w")
        await world.settle(worker)
        await worker.stop()
        end = world.writers[0].expected[-1].offset + 1
        world.write(30)
        partition = world.source.partition(world.partitions[0])
        header, _ = partition.batches[-5]
        partition.log_start_offset = header.base_offset
        second = await world.worker("w")
        await world.settle(second)
        (gap,) = world.gaps(world.partitions[0])
        assert (gap.reason, gap.source_to) == (Trouble.OUT_OF_RANGE, header.base_offset)
        assert end <= gap.source_from < header.base_offset
        assert gap.records_count is None
        world.check_copies()
        world.check_map(complete=True)
        # The map stays exact over the gap: missing offsets translate like the next record.
        replicator = second.flows[0].replicator
        assert replicator is not None
        translate = replicator.offset_map.translate
        assert translate(gap.source_from) == translate(header.base_offset)
        assert translate(gap.source_from).target_offset == gap.target_offset
        await second.stop()

    run_virtually(scenario())


def test_a_broken_batch_is_skipped_and_its_neighbours_are_copied() -> None:
    async def scenario() -> None:
        world = MirrorWorld(35, partitions=1)
        world.link_settings = {"on": SKIP}
        world.write(20)
        partition = world.source.partition(world.partitions[0])
        broken = bytearray(partition.batches[-1][1])
        broken[-1] ^= 0xFF
        base_offset = partition.log_end_offset
        partition.place(broken, base_offset)
        worker = await world.worker("w")
        # No sound batch follows: nobody knows where the broken one ends.
        partition.commit(partition.log_end_offset)
        flow = await worker.until_troubled(Trouble.CORRUPT, FlowState.PAUSED)
        assert world.gaps(flow.source) == []
        world.write(20)
        await world.settle(worker)
        (gap,) = world.gaps(flow.source)
        assert gap.reason == Trouble.CORRUPT
        assert gap.source_from <= base_offset < (gap.source_to or 0)
        assert len(world.expected(flow.source)) == len(world.writers[0].expected)
        world.check_copies()
        world.check_map(complete=True)
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (UncopyableBatchError(5, "cannot be opened"), Trouble.CORRUPT),
        (RuntimeError("a defect"), Trouble.INTERNAL),
    ],
)
def test_trouble_while_a_trouble_is_overcome_stops_only_its_partition(
    error: Exception, trouble: Trouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*args: object, **options: object) -> None:
        raise error

    async def scenario() -> None:
        world = MirrorWorld(36)
        world.link_settings = {"on": Policies(timestamp="skip", corrupt="fail")}
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        with monkeypatch.context() as patch:
            patch.setattr(trouble_handler, "note_gap", fail)
            _refuse_first_partition(world, ErrorCode.invalid_timestamp)
            world.write(30)
            flow = await worker.until_troubled(trouble, FlowState.FAILED)
            await asyncio.sleep(10)
            copied = len(world.copies(world.partitions[1]))
            assert copied == len(world.writers[1].expected), "the other partition continues"
            world.target.refuse = lambda at, header: None
        assert worker.link.retry(None, None) == [flow.source]
        while worker.failures():
            await asyncio.sleep(0.01)
        await world.settle(worker)
        world.check_copies()
        world.check_map(complete=True)
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("origin", ["any", "local"])
@pytest.mark.parametrize("size_bytes", [0, -1_000, 60])
def test_a_batch_of_an_impossible_size_stops_only_its_partition(
    origin: str, size_bytes: int
) -> None:
    async def scenario() -> None:
        world = MirrorWorld(37)
        world.link_settings = {"origin": origin}
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        partition = world.source.partition(world.partitions[0])
        broken = encode_batch([NewRecord(1_000, None, b"v")])
        struct.pack_into(">i", broken, 8, size_bytes - h.LOG_OVERHEAD_BYTES)
        partition.place(broken, partition.log_end_offset)
        partition.commit(partition.log_end_offset)
        flow = await worker.until_troubled(Trouble.CORRUPT, FlowState.FAILED)
        assert flow.source == world.partitions[0]
        world.writers[1].write_plain(3)
        async with asyncio.timeout(60):
            while len(world.copies(world.partitions[1])) < len(world.writers[1].expected):
                await asyncio.sleep(0.05)
        assert worker.link.failure is None
        await worker.stop()

    run_virtually(scenario())


def test_a_defect_met_by_one_partitions_data_stops_only_that_partition() -> None:
    accept = PartitionReplicator.accept

    async def scenario() -> None:
        world = MirrorWorld(38)
        world.write(10)
        worker = await world.worker("w")
        await world.settle(worker)
        hurt = world.partitions[0]

        def fail(self: PartitionReplicator, *args: Any) -> bool:
            if self is not worker.link.flows[hurt].replicator:
                return accept(self, *args)
            self.fetch_position += 1_000  # it may stop anywhere
            raise RuntimeError("a defect")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PartitionReplicator, "accept", fail)
            for writer in world.writers:
                writer.write_plain(3)
            flow = await worker.until_troubled(Trouble.INTERNAL, FlowState.FAILED)
            assert flow.source == hurt
            assert "a defect" in (flow.reason or "")
            world.writers[1].write_plain(3)
            async with asyncio.timeout(60):
                while len(world.copies(world.partitions[1])) < len(world.writers[1].expected):
                    await asyncio.sleep(0.05)
        assert worker.link.retry(None, None) == [hurt]
        while worker.failures():
            await asyncio.sleep(0.01)
        await world.settle(worker)
        world.check_everything()
        await worker.stop()

    run_virtually(scenario())


class SkippingWorld(MirrorWorld):
    """A world whose target refuses some records, and whose link skips them."""

    def __init__(self, seed: int, partitions: int, code: ErrorCode, reason: Trouble) -> None:
        super().__init__(seed, partitions)
        _refuse_bad_records(self, code)
        self._reason = reason

    def check_everything(self) -> None:
        _check_skipped(self, self._reason)
        super().check_everything()


@SOME_OR_EVERY_STEP
def test_killed_at_every_step_while_skipping(stride: int) -> None:
    """One entry per gap, and no record around it lost, duplicated or out of order."""
    kill_at_every_step(
        lambda: SkippingWorld(4, 1, ErrorCode.invalid_timestamp, Trouble.TIMESTAMP),
        batches=5,
        batches_later=2,
        steps_min=100,
        stride=stride,
    )


@pytest.mark.parametrize("seed", range(20), ids=lambda seed: f"seed-{seed}")
def test_chaos_while_skipping(seed: int) -> None:
    """Lost and late requests, kills, and two workers that meet the same gaps at once."""

    async def scenario() -> None:
        world = SkippingWorld(seed, 2, ErrorCode.message_too_large, Trouble.TOO_LARGE)
        await chaos(world, Random(seed), batches=20, batches_per_turn_max=10)

    run_virtually(scenario())
