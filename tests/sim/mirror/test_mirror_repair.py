"""An operator repairs a wrong copy: each fault, each way, and a kill at each step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, Record, decode_batch, encode_batch
from local_cluster.wire.errors import KafkaError
from mirror_maker.flow.trouble_handler import TroubleHandler
from mirror_maker.formats.gaps import GapKind
from mirror_maker.formats.naming import TopicNames
from mirror_maker.formats.verdicts import Verdict
from mirror_maker.model import FlowFailedError, FlowState
from mirror_maker.repair.examiner import NoRepairError
from mirror_maker.repair.plan import How
from mirror_maker.rules.trouble import Policies, Trouble
from tests.sim.kafka_double.log import SimPartition
from tests.sim.kafka_double.network import Killed
from tests.sim.mirror.scenarios import until
from tests.sim.mirror.translation_checks import check_translations
from tests.sim.mirror.world import LIMITS, TOPIC, MirrorWorld, SimWorker, read_map_topic
from tests.sim.virtual_time import run_virtually

AT = TopicPartition(TOPIC, 0)
FOREIGN = b"nobody copied this"
QUIET_MS = 300
ORDER_SECONDS_MAX = 60.0
STRIDE = 16
"""Only every so many steps a worker is killed, to save time."""


class KillWhenArmed:
    """Raises Killed at the nth step after `arm`."""

    def __init__(self) -> None:
        self.count = 0
        self._at: int | None = None
        self._is_armed = False

    def arm(self, at: int | None) -> None:
        self.count, self._at, self._is_armed = 0, at, True

    def __call__(self) -> None:
        if self._is_armed:
            self.count += 1
            if self.is_dead:
                raise Killed

    @property
    def is_dead(self) -> bool:
        return self._at is not None and self.count >= self._at


@dataclass
class Damaged:
    """A world whose copy is wrong, and what must hold for it."""

    world: MirrorWorld
    worker: SimWorker
    kill: KillWhenArmed
    good_to: int
    """Copies of source records below this offset are right."""
    mapped_to: int
    """The source offset after what was mapped."""
    lost_to: int
    """`skip` gives up the source records from `good_to` to here."""
    places: dict[int, int]
    """Source offset -> target offset of every copy, before the fault."""
    is_stopped: bool
    """Whether the flow can continue only in another generation."""
    staying: set[int]
    """Target offsets of records that are not copies, and stay unless the copy is deleted."""
    before: list[Record] = field(default_factory=list)
    """The copy's records before the repair."""

    def __post_init__(self) -> None:
        self.before = self.world.copies(AT)


def _copy(world: MirrorWorld) -> SimPartition:
    return world.target.partition(AT._replace(topic=f"a.{TOPIC}"))


def _write_foreign(world: MirrorWorld, count: int = 2) -> int:
    partition = _copy(world)
    offset = partition.log_end_offset
    if count:
        partition.append(encode_batch([NewRecord(0, None, FOREIGN)] * count))
        partition.commit(partition.log_end_offset)
    return offset


def _all_places(world: MirrorWorld) -> dict[int, int]:
    """Return the record of a world without a fault."""
    return _zip(world.writers[0].expected, world.copies(AT))


async def _begun(seed: int) -> tuple[MirrorWorld, SimWorker, KillWhenArmed]:
    world = MirrorWorld(seed, partitions=1)
    world.limits = replace(LIMITS, epoch_quiet_ms=QUIET_MS, controls_ms=100)
    world.link_settings = {"on": Policies()}
    world.write(8)
    for count in (3, 4, 2, 5):
        world.writers[0].write_plain(count)
    kill = KillWhenArmed()
    worker = await world.worker("w", kill)
    await world.settle(worker)
    return world, worker, kill


def _end(world: MirrorWorld) -> int:
    return world.writers[0].expected[-1].offset + 1


async def foreign(seed: int) -> Damaged:
    """An outside producer wrote into the copy; the flow has failed."""
    world, worker, kill = await _begun(seed)
    end, places = _end(world), _all_places(world)
    offset = _write_foreign(world)
    world.writers[0].write_plain(2)
    await worker.until_troubled(Trouble.FOREIGN, FlowState.FAILED)
    staying = {offset, offset + 1}
    return Damaged(world, worker, kill, end, end, end, places, False, staying)


async def lost(seed: int, count: int = 9) -> Damaged:
    """The target lost the end of the copy and has other records there; the flow has failed."""
    world, worker, kill = await _begun(seed)
    await worker.stop()
    end, places = _end(world), _all_places(world)
    _copy(world).cut_back(places[world.writers[0].expected[-6].offset])
    good_to = world.writers[0].expected[len(world.copies(AT))].offset  # whole batches were lost
    offset = _write_foreign(world, count)
    worker = await world.worker("w", kill)
    await worker.until_troubled(Trouble.TARGET, FlowState.FAILED)
    staying = set(range(offset, offset + count))
    return Damaged(world, worker, kill, good_to, end, end, places, True, staying)


async def altered(seed: int) -> Damaged:
    """The target has other bytes in one batch; the flow runs, and the audit found it."""
    world, worker, kill = await _begun(seed)
    for _ in range(6):  # the first writes are read back
        world.writers[0].write_plain(1)
        await world.settle(worker)
    partition = _copy(world)
    good_to = world.writers[0].partition.log_end_offset
    before = len(partition.batches)
    world.writers[0].write_plain(4)
    async with asyncio.timeout(10):
        while len(partition.batches) == before:
            await asyncio.sleep(0.001)
    header, batch = partition.batches[-1]
    records = [NewRecord(each.timestamp_ms, b"k", b"v") for each in decode_batch(batch, 0, header)]
    other = encode_batch(
        records,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
    h.patch_base_offset(other, 0, header.base_offset)
    partition.batches[-1] = h.read_header(other), bytes(other)
    staying = set(range(header.base_offset, header.next_offset))
    lost_to = _end(world)
    world.writers[0].write_plain(3)
    await world.settle(worker)
    assert [each.verdict for each in world.findings(AT)] == [Verdict.ALTERED]
    places = _all_places(world)
    return Damaged(world, worker, kill, good_to, _end(world), lost_to, places, False, staying)


async def truncated(seed: int) -> Damaged:
    """The source lost the end of its log and has other records there; the flow has failed."""
    world, worker, kill = await _begun(seed)
    mapped_to, before = _end(world), list(world.writers[0].expected)
    places = _all_places(world)
    world.writers[0].cut_back(world.writers[0].expected[-6].offset)
    while _end(world) <= mapped_to + 3:
        world.writers[0].write_plain(2)
    now = world.writers[0].expected
    good_to = next(a.offset for a, b in zip(before, now, strict=False) if a != b)
    await worker.until_troubled(Trouble.TRUNCATED, FlowState.FAILED)
    return Damaged(world, worker, kill, good_to, mapped_to, mapped_to, places, True, set())


async def unexplained(seed: int) -> Damaged:
    """Records of the link that are not copies follow the map; the flow has failed."""
    world, worker, kill = await _begun(seed)
    producer_id = worker.link.map_store.registration.producer_id
    await worker.stop()
    end, places, partition = _end(world), _all_places(world), _copy(world)
    last = partition.producers[producer_id].batches[-1][1]
    batch = encode_batch(
        [NewRecord(0, None, b"whose?")] * 3,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=last + 1,
    )
    offset, _ = partition.append(batch)
    partition.commit(partition.log_end_offset)
    world.writers[0].write_plain(5)
    worker = await world.worker("w", kill)
    await worker.until_troubled(Trouble.TARGET, FlowState.FAILED)
    staying = set(range(offset, offset + 3))
    return Damaged(world, worker, kill, end, end, end, places, True, staying)


Fault = Callable[[int], Awaitable[Damaged]]
REPAIRS: list[tuple[Fault, How]] = [
    (fault, how)
    for fault in (foreign, lost, altered, truncated, unexplained)
    for how in How
    if how is not How.SKIP or fault not in (truncated, unexplained)
]
NAMES = [f"{fault.__name__}-{how}" for fault, how in REPAIRS]


def _contents(records: list[Record]) -> list[tuple[Any, ...]]:
    return [record[1:] for record in records]


async def _ordered(worker: SimWorker, how: How) -> dict[str, Any]:
    """Order it, and repeat while it is unknown whether the order was written."""
    async with asyncio.timeout(ORDER_SECONDS_MAX):
        while True:
            with suppress(KafkaError):
                return await worker.link.repair(AT, how)
            await asyncio.sleep(0.1)


async def _check(damaged: Damaged, worker: SimWorker, how: How) -> None:
    """Check that the copy, the map, the journal and the audit are as the way says."""
    world = damaged.world
    world.writers[0].write_plain(2)
    await until(lambda: any(flow.replicator is not None for flow in worker.flows))
    await world.settle(worker)
    await asyncio.sleep(2)
    world.writers[0].write_plain(2)
    await world.settle(worker)
    places = _places(damaged, how)
    records = {record.offset: record for record in world.copies(AT)}
    expected = {record.offset: record for record in world.writers[0].expected}
    left = _given_up(damaged) if how is How.SKIP else set()
    for source, target in places.items():
        is_right = records[target][1:] == expected[source][1:]
        assert is_right or source in left, (source, target)
    assert {o for o in expected if o not in places} == left - places.keys()
    _check_map(world, places)
    _check_journal(damaged, how, left)
    assert world.findings(AT) == []


def _places(damaged: Damaged, how: How) -> dict[int, int]:
    """Return where the copies must be that the map names."""
    world, expected = damaged.world, damaged.world.writers[0].expected
    copies = world.copies(AT)
    if how is How.FRESH:
        assert _copy(world).log_start_offset == damaged.before[-1].offset + 1
        return _zip(expected, copies)
    assert copies[: len(damaged.before)] == damaged.before, "what was there stays as it is"
    if how is How.SKIP and not damaged.is_stopped:
        return _zip(expected, [each for each in copies if each.value != FOREIGN])
    first = damaged.good_to if how is How.RECOPY else damaged.mapped_to
    good = {o: n for o, n in damaged.places.items() if o < damaged.good_to}
    again = [each for each in expected if each.offset >= first]
    return good | _zip(again, copies[len(damaged.before) :])


def _zip(originals: list[Record], copies: list[Record]) -> dict[int, int]:
    return {e.offset: c.offset for e, c in zip(originals, copies, strict=True)}


def _given_up(damaged: Damaged) -> set[int]:
    return {
        record.offset
        for record in damaged.world.writers[0].expected
        if damaged.good_to <= record.offset < damaged.lost_to
    }


def _check_map(world: MirrorWorld, places: dict[int, int]) -> None:
    topic = read_map_topic(world.target)
    flow = topic.latest_flow(*AT)
    assert flow is not None
    offset_map = topic.offset_map(flow)
    assert offset_map is not None
    mapped = {
        run.source_offset + n: run.target_offset + n
        for run in offset_map.runs()
        for n in range(run.records_count)
    }
    assert mapped == places
    assert check_translations(offset_map, places, _end(world)) == 0


def _check_journal(damaged: Damaged, how: How, left: set[int]) -> None:
    """Check the entries: what is given up, what stays without being a copy, at most one order."""
    world = damaged.world
    gaps = world.gaps(AT)
    told = {n for g in gaps if g.source_to for n in range(g.source_from, g.source_to)}
    assert {each.offset for each in world.writers[0].expected} & told == left
    orders = [gap for gap in gaps if gap.source_to is None]
    is_new = how is not How.SKIP or damaged.is_stopped
    assert [gap.reason for gap in orders] == [f"repair_{how}"] * is_new
    entries = world.entries(AT, GapKind.FOREIGN)
    staying = {n for each in entries for n in range(each.target_offset, each.target_to or 0)}
    assert staying == (set() if how is How.FRESH else damaged.staying)


@pytest.mark.parametrize(("fault", "how"), REPAIRS, ids=NAMES)
def test_a_repair_has_its_described_effects(fault: Fault, how: How) -> None:
    async def scenario() -> None:
        damaged = await fault(1)
        worker, world = damaged.worker, damaged.world
        before = _everything(world)
        examined = await worker.link.examine(AT)
        assert _everything(world) == before, "examining changes nothing"
        (way,) = (each for each in examined["ways"] if each["how"] == how)
        assert way["is_possible"], way
        again = [
            each
            for each in world.writers[0].expected
            if way["copied_again"]["source_from"] <= each.offset < damaged.mapped_to
        ]
        assert way["copied_again"]["records"] == len(again) or fault is truncated
        told = await _ordered(worker, how)
        assert told["ordered"] == how
        assert told["faults"] == examined["faults"]
        await _check(damaged, worker, how)
        with pytest.raises(NoRepairError, match="nothing is wrong"):
            await worker.link.repair(AT, how)
        await worker.stop()

    run_virtually(scenario())


def _is_repaired(damaged: Damaged) -> bool:
    """Return whether the flow has copied the last records."""
    (flow,) = damaged.worker.flows
    end = damaged.world.writers[0].partition.log_end_offset
    replicator = flow.replicator
    return (
        replicator is not None and replicator.source_next >= end and not replicator.block.is_dirty
    )


def _everything(world: MirrorWorld) -> dict[str, int]:
    """Return the ends of the target's logs, except the topic that the audit keeps writing."""
    return {
        name: partition.log_end_offset
        for name, topic in world.target.topics.items()
        if "verdicts" not in name
        for partition in topic.partitions
    }


@pytest.mark.parametrize(
    "stride", [STRIDE, pytest.param(1, marks=pytest.mark.long)], ids=["some", "every"]
)
@pytest.mark.parametrize(("fault", "how"), REPAIRS, ids=NAMES)
def test_a_worker_that_dies_at_any_step_of_a_repair(fault: Fault, how: How, stride: int) -> None:
    """It is done, or can be ordered again."""

    async def scenario(step: int | None) -> int:
        damaged = await fault(2)
        worker = damaged.worker
        kill = damaged.kill
        kill.arm(step)
        ordering = asyncio.create_task(worker.link.repair(AT, how))
        await until(lambda: kill.is_dead or (ordering.done() and _is_repaired(damaged)))
        steps = kill.count
        await worker.kill()
        ordering.cancel()
        await asyncio.gather(ordering, return_exceptions=True)
        worker = await damaged.world.worker("next")
        with suppress(NoRepairError):
            await _ordered(worker, how)
        await _check(damaged, worker, how)
        await worker.stop()
        return steps

    steps = run_virtually(scenario(None))
    assert steps > 10
    for step in range(1 + NAMES.index(f"{fault.__name__}-{how}") % stride, steps + 1, stride):
        run_virtually(scenario(step))


@pytest.mark.parametrize("how", How)
def test_a_worker_that_does_not_copy_the_partition_takes_the_order(how: How) -> None:
    async def scenario() -> None:
        damaged = await foreign(3)
        owner, world = damaged.worker, damaged.world
        other = await world.worker("other")
        other.link.assign([])
        await until(lambda: not other.link.flows)
        await _ordered(other, how)
        await _check(damaged, owner, how)
        await other.stop()
        await owner.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("how", How)
def test_an_order_is_followed_by_the_next_worker(how: How) -> None:
    async def scenario() -> None:
        damaged = await lost(4)
        await damaged.worker.kill()
        other = await damaged.world.worker("other")
        other.link.assign([])
        await until(lambda: not other.link.flows)
        await _ordered(other, how)
        await other.kill()
        worker = await damaged.world.worker("next")
        await _check(damaged, worker, how)
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("how", How)
def test_a_copy_that_ends_before_its_map_is_repaired(how: How) -> None:
    """Nobody wrote at the offsets of the lost records."""

    async def scenario() -> None:
        damaged = await lost(5, count=0)
        await _ordered(damaged.worker, how)
        await _check(damaged, damaged.worker, how)
        await damaged.worker.stop()

    run_virtually(scenario())


def test_records_that_the_source_lost_meanwhile_are_reported() -> None:
    async def scenario() -> None:
        damaged = await lost(6)
        world = damaged.world
        source, expected = world.writers[0].partition, world.writers[0].expected
        first = expected[-5].offset  # where the last batch begins
        source.delete_below(first)
        document = await damaged.worker.link.examine(AT)
        recopy = document["ways"][0]
        assert recopy["copied_again"]["source_from"] == first
        assert recopy["given_up"][0]["source_to"] == first
        await _ordered(damaged.worker, How.RECOPY)
        world.writers[0].write_plain(2)
        await until(lambda: damaged.worker.flows[0].replicator is not None)
        await world.settle(damaged.worker)
        again = world.copies(AT)[len(damaged.before) :]
        assert _contents(again) == _contents([each for each in expected if each.offset >= first])
        (gap,) = [each for each in world.gaps(AT) if each.source_to is not None]
        assert gap.source_from <= damaged.good_to < first
        assert gap.source_to == first
        assert gap.reason == "repair_recopy"
        await damaged.worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize(
    "settings",
    [
        {"names": TopicNames(otherwise="identity")},
        {"names": TopicNames(merge=(TOPIC,))},
        {"on_unmapped_target": "append"},
    ],
    ids=["identity", "merge", "append"],
)
def test_a_shared_copy_is_not_deleted(settings: dict[str, object]) -> None:
    async def scenario() -> None:
        world = MirrorWorld(7, partitions=1)
        world.limits = replace(LIMITS, epoch_quiet_ms=QUIET_MS, controls_ms=100)
        world.link_settings = settings
        world.writers[0].write_plain(4)
        world.writers[0].write_plain(4)
        worker = await world.worker("w")
        await world.settle(worker)
        await worker.stop()
        copy = world.target.partition(worker.flows[0].target)
        copy.cut_back(copy.batches[-1][0].base_offset)
        worker = await world.worker("next")
        await worker.until_troubled(Trouble.TARGET, FlowState.FAILED)
        before = [bytes(batch) for _, batch in copy.batches]
        with pytest.raises(NoRepairError, match="others may write into this copy"):
            await worker.link.repair(AT, How.FRESH)
        assert [bytes(batch) for _, batch in copy.batches] == before
        assert not world.gaps(AT)
        await worker.link.repair(AT, How.RECOPY)
        await until(lambda: worker.flows[0].replicator is not None)
        await world.settle(worker, is_audited=False)
        copied = [each for header, batch in copy.batches for each in decode_batch(batch, 0, header)]
        assert _contents(copied) == _contents(world.writers[0].expected)
        await worker.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("is_opened", [False, True], ids=["both are read", "one was followed"])
def test_nothing_is_deleted_that_is_not_copied_again(is_opened: bool) -> None:
    """Two operators order different ways at the same time. Older workers follow the order whose
    target offset is lower."""

    async def scenario() -> None:
        damaged = await lost(9)
        world = damaged.world
        await damaged.worker.kill()
        other = await world.worker("other")
        other.link.assign([])
        await until(lambda: not other.link.flows)
        await _ordered(other, How.RECOPY)
        map_store = other.link.map_store
        (recopy,) = world.gaps(AT)
        if is_opened:
            opening = map_store.state.opening(recopy.flow)
            assert opening is not None
            following = replace(
                opening,
                producer_epoch=opening.producer_epoch + 1,
                nonce=map_store.new_nonce(),
                source_offset=recopy.source_from,
                target_offset=_copy(world).high_watermark,
            )
            await map_store.append([following])
        fresh = replace(
            recopy,
            reason="repair_fresh",
            nonce=map_store.new_nonce(),
            source_from=0,
            target_offset=recopy.target_offset + 1,
        )
        await other.link.journal.note(fresh)
        await other.kill()
        worker = await world.worker("next")
        await until(lambda: any(flow.replicator is not None for flow in worker.flows))
        await world.settle(worker)
        copies, expected = world.copies(AT), world.writers[0].expected
        if is_opened:
            again = [each for each in expected if each.offset >= recopy.source_from]
            assert copies[: len(damaged.before)] == damaged.before
            assert _contents(copies[len(damaged.before) :]) == _contents(again)
        else:
            assert _contents(copies) == _contents(expected)
        await worker.stop()

    run_virtually(scenario())


def test_a_flow_that_fails_while_the_order_arrives_is_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The order is read behind the proof that failed, and before the flow waits."""

    async def scenario() -> None:
        damaged = await foreign(8)
        worker = damaged.worker
        overcome = TroubleHandler.overcome
        orders: list[object] = []

        async def order_first(troubles: TroubleHandler, *arguments: Any) -> FlowFailedError | None:
            if not orders:
                orders.append(None)
                await worker.link.repair(AT, How.SKIP)
            return await overcome(troubles, *arguments)

        monkeypatch.setattr(TroubleHandler, "overcome", order_first)
        worker.flows[0].retry()
        await until(lambda: bool(orders))
        await _check(damaged, worker, How.SKIP)
        await worker.stop()

    run_virtually(scenario())
