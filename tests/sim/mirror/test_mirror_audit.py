"""Faults planted in the target's log: the audit finds each with its offsets, and nothing else.

They are planted after everything is copied and mapped, and before the audit reads it. The auditor
is the worker that copied, or its successor after a kill.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.audit.auditor import LinkAuditor
from mirror_maker.audit.flow_audit import LOST_AFTER_MS
from mirror_maker.formats.verdicts import FAULTS, Verdict
from tests.sim.kafka_double.log import SimPartition
from tests.sim.mirror.world import TOPIC, MirrorWorld
from tests.sim.virtual_time import run_virtually

BATCHES, RECORDS = 8, 3
"""Batches of the source's first partition; each is copied as it is."""
AT = 12
"""Target offset of the fifth batch."""
Fault = tuple[Verdict, int, int]
"""Verdict, and target offsets [from, to)."""


@dataclass
class Planted:
    """A fault: how it changes the log, and the findings that the audit must have."""

    plant: Callable[[SimPartition], None]
    expected: set[Fault]
    complete: int
    cleaned: int = 0
    topic_configs: dict[str, str] = field(default_factory=dict)


def _lose(log: SimPartition) -> None:
    log.batches = [each for each in log.batches if each[0].base_offset != AT]


def _alter(log: SimPartition, *, is_sound: bool = True) -> None:
    header, batch = _batch_at(log, AT)
    if is_sound:
        records = [NewRecord(header.base_timestamp, b"k", b"altered")] * RECORDS
        other = encode_batch(
            records,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
        )
        h.patch_base_offset(other, 0, AT)
    else:
        other = bytearray(batch)
        other[-1] ^= 1
    _put(log, AT, bytes(other))


def _swap(log: SimPartition) -> None:
    one, other = (bytearray(_batch_at(log, at)[1]) for at in (AT - RECORDS, AT))
    h.patch_base_offset(one, 0, AT)
    h.patch_base_offset(other, 0, AT - RECORDS)
    _put(log, AT - RECORDS, bytes(other))
    _put(log, AT, bytes(one))


def _double(log: SimPartition) -> None:
    log.place(_batch_at(log, AT)[1], log.log_end_offset)


def _intrude(log: SimPartition) -> None:
    log.place(encode_batch([NewRecord(0, None, b"foreign")] * 2), log.log_end_offset)


def _expire(log: SimPartition) -> None:
    log.log_start_offset = AT
    log.batches = [each for each in log.batches if each[0].base_offset >= AT]


def _cut(log: SimPartition) -> None:
    log.cut_back(ALL - RECORDS)


def _batch_at(log: SimPartition, at: int) -> tuple[h.BatchHeader, bytes]:
    return next(each for each in log.batches if each[0].base_offset == at)


def _put(log: SimPartition, at: int, batch: bytes) -> None:
    index = next(i for i, each in enumerate(log.batches) if each[0].base_offset == at)
    log.batches[index] = h.read_header(batch), batch


ALL = BATCHES * RECORDS
PLANTED = {
    "nothing": Planted(lambda _: None, set(), ALL),
    "lost": Planted(_lose, {(Verdict.LOST, AT, AT + 3)}, ALL - 3),
    "cut": Planted(_cut, {(Verdict.LOST, ALL - 3, ALL)}, ALL - 3),
    "altered": Planted(_alter, {(Verdict.ALTERED, AT, AT + 3)}, ALL - 3),
    "damaged": Planted(
        lambda log: _alter(log, is_sound=False), {(Verdict.ALTERED, AT, AT + 3)}, ALL - 3
    ),
    "swapped": Planted(
        _swap, {(Verdict.ALTERED, AT - 3, AT), (Verdict.ALTERED, AT, AT + 3)}, ALL - 6
    ),
    "doubled": Planted(_double, {(Verdict.DUPLICATED, ALL, ALL + 3)}, ALL),
    "foreign": Planted(_intrude, {(Verdict.FOREIGN, ALL, ALL + 2)}, ALL),
    "expired": Planted(_expire, set(), ALL - AT, cleaned=AT),
    "compacted": Planted(
        _lose, set(), ALL - 3, cleaned=3, topic_configs={"cleanup.policy": "compact"}
    ),
}


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Return an event; no audit reads anything before it is set."""
    gate, step = asyncio.Event(), LinkAuditor.step

    async def wait_and_step(auditor: LinkAuditor) -> bool:
        await gate.wait()
        return await step(auditor)

    monkeypatch.setattr(LinkAuditor, "step", wait_and_step)
    return gate


def _check(world: MirrorWorld, planted: Planted) -> None:
    at = world.partitions[0]
    verdicts = world.verdicts(at)
    found = {(each.verdict, each.target_from, each.target_to) for each in world.findings(at)}
    assert found == planted.expected
    assert verdicts[Verdict.COMPLETE].records_count == planted.complete
    cleaned = verdicts.get(Verdict.CLEANED)
    assert (0 if cleaned is None else cleaned.records_count) == planted.cleaned
    faults = sum(verdicts[each].records_count for each in FAULTS if each in verdicts)
    assert faults == sum(end - start for _, start, end in planted.expected)
    assert verdicts.keys() <= {Verdict.COMPLETE, Verdict.CLEANED, *FAULTS}


@pytest.mark.parametrize("is_killed", [False, True], ids=["same-worker", "successor"])
@pytest.mark.parametrize("fault", PLANTED)
def test_each_fault_has_its_verdict_and_offsets(
    fault: str, is_killed: bool, gate: asyncio.Event
) -> None:
    async def scenario() -> None:
        world = MirrorWorld(1, partitions=1)
        world.link_settings = {"coalesce_batches": False}
        planted = PLANTED[fault]
        for _ in range(BATCHES):
            world.writers[0].write_plain(RECORDS)
        worker = await world.worker("w1")
        await world.settle(worker, is_audited=False)
        name = f"a.{TOPIC}"
        world.target.topics[name].configs.update(planted.topic_configs)
        log = world.target.partition(TopicPartition(name, 0))
        planted.plant(log)
        log.commit(log.log_end_offset)
        if is_killed:
            await worker.kill()
            worker = await world.worker("w2")
        gate.set()
        await asyncio.sleep(2 * LOST_AFTER_MS / 1000 if fault == "cut" else 5)
        await world.audited(worker)
        _check(world, planted)
        await worker.stop()

    run_virtually(scenario())
