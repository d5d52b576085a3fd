"""The audit in trouble: truncated logs, topics without readable configs, unknown formats."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.audit.auditor import LinkAuditor
from mirror_maker.audit.flow_audit import LOST_AFTER_MS, FlowAudit
from mirror_maker.audit.log_check import WAITING_MAX
from mirror_maker.formats.receipts import receipts_topic_name
from mirror_maker.formats.verdicts import Finding, Verdict, verdicts_topic_name
from mirror_maker.model import LinkState
from tests.sim.mirror.world import (
    LINK,
    TOPIC,
    MirrorWorld,
    SimWorker,
    SourceWriter,
    read_verdicts_topic,
)
from tests.sim.virtual_time import run_virtually

COPY = TopicPartition(f"a.{TOPIC}", 0)
OTHER = TopicPartition(f"a-{TOPIC}", 0)
"""A second topic, which sorts before the first one."""


async def _copied(batches: int, seed: int = 1) -> tuple[MirrorWorld, SimWorker]:
    """Return a world whose batches of three records are copied and audited."""
    world = MirrorWorld(seed, partitions=1)
    world.link_settings = {"coalesce_batches": False}
    for _ in range(batches):
        world.writers[0].write_plain(3)
    worker = await world.worker("w1")
    await world.settle(worker)
    return world, worker


def _auditor(worker: SimWorker) -> LinkAuditor:
    assert worker.link.auditor is not None
    return worker.link.auditor


def _audit(world: MirrorWorld, worker: SimWorker) -> FlowAudit:
    found = _auditor(worker).audit(world.partitions[0])
    assert found is not None
    return found


def _counts(world: MirrorWorld) -> dict[Verdict, int]:
    verdicts = world.verdicts(world.partitions[0])
    return {verdict: tally.records_count for verdict, tally in verdicts.items()}


def _findings(world: MirrorWorld) -> list[tuple[Verdict, int, int]]:
    def place(finding: Finding) -> tuple[Verdict, int, int]:
        return finding.verdict, finding.target_from, finding.target_to

    return sorted(map(place, world.findings(world.partitions[0])))


def test_a_log_that_loses_compared_records_is_reported() -> None:
    async def scenario() -> None:
        world, worker = await _copied(8)
        log = world.target.partition(COPY)
        log.cut_back(12)
        await asyncio.sleep(2 * LOST_AFTER_MS / 1000)
        assert _findings(world) == [(Verdict.LOST, 12, 24)]
        assert _counts(world) == {Verdict.COMPLETE: 12, Verdict.LOST: 12}
        assert _audit(world, worker).check.audited_to == 12
        assert worker.link.state() is LinkState.DEGRADED
        await worker.kill()

    run_virtually(scenario())


def test_a_log_that_is_short_for_a_moment_is_no_finding() -> None:
    async def scenario() -> None:
        world, worker = await _copied(8)
        log = world.target.partition(COPY)
        batches = list(log.batches)
        log.cut_back(12)  # as a leader with an older high watermark
        await asyncio.sleep(LOST_AFTER_MS / 3000)
        log.batches, log.log_end_offset = batches, 24
        log.commit(24)
        world.writers[0].write_plain(3)
        await world.settle(worker)
        await asyncio.sleep(2 * LOST_AFTER_MS / 1000)
        assert not _findings(world)
        assert _counts(world) == {Verdict.COMPLETE: 27}
        await worker.stop()

    run_virtually(scenario())


def test_receipts_of_an_older_generation_are_no_findings_if_verdicts_start_over() -> None:
    async def scenario() -> None:
        world, worker = await _copied(4)
        await worker.link.flows[world.partitions[0]]._epochs.raise_epoch(0)
        await worker.stop()
        del world.target.topics[verdicts_topic_name(LINK)]
        worker = await world.worker("w2")
        world.writers[0].write_plain(3)
        await world.settle(worker)
        assert _counts(world) == {Verdict.COMPLETE: 3}
        assert worker.link.state() is LinkState.RUNNING
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("trouble", ["gone", "refused"])
def test_the_audit_of_a_topic_without_readable_configs_holds_up_no_other(trouble: str) -> None:
    async def scenario() -> None:
        world = MirrorWorld(1, partitions=1)
        world.source.create(OTHER.topic, 1)
        SourceWriter(world.source.partition(OTHER), Random(3)).write_plain(3)
        world.writers[0].write_plain(3)
        worker = await world.worker("w1")
        worker.link.assign([OTHER, *world.partitions])
        await asyncio.sleep(20)
        if trouble == "gone":
            del world.source.topics[OTHER.topic]
            await asyncio.sleep(5)
            del world.target.topics[f"a.{OTHER.topic}"]
        else:
            world.target.denied.add(f"a.{OTHER.topic}")
        await asyncio.sleep(200)
        world.writers[0].write_plain(3)
        await asyncio.sleep(20)
        end = world.target.partition(COPY).high_watermark
        assert _audit(world, worker).check.audited_to == end == 6
        await worker.kill()

    run_virtually(scenario())


def test_a_failure_of_the_audit_is_published_while_it_lasts() -> None:
    async def scenario() -> None:
        world, worker = await _copied(2)
        receipts = world.target.topics.pop(receipts_topic_name(LINK))
        await asyncio.sleep(30)
        told = read_verdicts_topic(world.target).auditors["w1"]
        assert "heliograph-receipts" in (told.failure or "")
        world.target.topics[receipts_topic_name(LINK)] = receipts
        await asyncio.sleep(30)
        assert read_verdicts_topic(world.target).auditors["w1"].failure is None
        await worker.kill()

    run_virtually(scenario())


@pytest.mark.parametrize("name", [receipts_topic_name(LINK), verdicts_topic_name(LINK)])
def test_a_receipt_of_an_unknown_format_is_passed_over(name: str) -> None:
    async def scenario() -> None:
        world, worker = await _copied(1)
        log = world.target.partition(TopicPartition(name, 0))
        log.place(encode_batch([NewRecord(0, b"x", b"garbage")]), log.log_end_offset)
        log.commit(log.log_end_offset)
        world.writers[0].write_plain(3)
        await asyncio.sleep(60)
        assert _audit(world, worker).check.audited_to == 6
        assert _auditor(worker).failure is None
        await worker.kill()

    run_virtually(scenario())


def test_an_audit_that_is_far_behind_skips_no_receipt() -> None:
    """A flow that has no room for a record of receipts gets this one next, not a later one."""
    rounds, batches = 8, WAITING_MAX // 4

    async def scenario() -> None:
        world = MirrorWorld(1, partitions=1)
        world.link_settings = {"coalesce_batches": False}
        copying = SimWorker(world, "w1", lambda: None)
        copying.link.auditor = None
        copying.start()
        for _ in range(rounds):
            for _ in range(batches):
                world.writers[0].write_plain(1)
            await world.settle(copying, is_audited=False)
        await copying.stop()
        worker = await world.worker("w2")
        await world.settle(worker)
        assert _findings(world) == []
        assert _counts(world) == {Verdict.COMPLETE: rounds * batches}
        await worker.stop()

    run_virtually(scenario())
