"""The comparison of receipts with a log: each fault has its verdict, in any order of arrival."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.audit.evidence import Judged, SeenBatch
from mirror_maker.audit.log_check import WAITING_MAX, LogCheck
from mirror_maker.formats.receipts import NO_CRC, Receipt, Receipts
from mirror_maker.formats.verdicts import AuditPlace, Verdict
from tests.support.compacted_batches import encode_cleaned

OURS, THEIRS = 7, 8
COMPLETE, LOST, DUPLICATED = Verdict.COMPLETE, Verdict.LOST, Verdict.DUPLICATED
ALTERED, FOREIGN, CLEANED = Verdict.ALTERED, Verdict.FOREIGN, Verdict.CLEANED


def records(serial: int, count: int) -> list[NewRecord]:
    return [NewRecord(1_000 + serial, b"k%d" % serial, b"v%d" % index) for index in range(count)]


class World:
    """The receipts of a mirror, and the target's log."""

    def __init__(self, counts: list[int]) -> None:
        self.receipts: list[Receipt] = []
        self.log: dict[int, bytearray] = {}
        """By offset."""
        self.compacted = self.rewritten = False
        self.alone = True
        self.log_start = 0
        offset = 0
        for serial, count in enumerate(counts):
            self.append(serial, offset, count)
            offset += count

    @property
    def end(self) -> int:
        return max((h.read_header(each).next_offset for each in self.log.values()), default=0)

    @property
    def receipts_to(self) -> int:
        return self.receipts[-1].target_next

    def append(self, serial: int, offset: int, count: int, *, sequence: int | None = None) -> None:
        """Add a batch of ours with its receipt; its source offsets are 100 higher."""
        made = self.batch(serial, offset, count, sequence=sequence)
        self.log[offset] = made
        header = h.read_header(made)
        source = 100 + offset
        self.receipts.append(
            Receipt(source, source + count, offset, count, header.crc, header.max_timestamp)
        )

    def batch(
        self,
        serial: int,
        offset: int,
        count: int,
        *,
        producer_id: int = OURS,
        sequence: int | None = None,
    ) -> bytearray:
        made = encode_batch(
            records(serial, count),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self.sequence_at(offset) if sequence is None else sequence,
        )
        h.patch_base_offset(made, 0, offset)
        return made

    def sequence_at(self, offset: int) -> int:
        """Return how many records of ours precede an offset."""
        return sum(each.records_count for each in self.receipts if each.target_offset < offset)

    def check(self) -> LogCheck:
        return self.resumed(AuditPlace(0))

    def seen(self) -> list[SeenBatch]:
        found = []
        for _, data in sorted(self.log.items()):
            header = h.read_header(data)
            found.append(SeenBatch(header, h.crc_is_valid(data, 0, header)))
        return [each for each in found if each.offset >= self.log_start]

    def entries(self, random: Random) -> list[Receipts]:
        """Return the receipts as several records of their topic."""
        found, at, sequence = [], 0, 0
        while at < len(self.receipts):
            part = tuple(self.receipts[at : at + random.randint(1, 4)])
            found.append(Receipts(1, 0, sequence, part))
            sequence += sum(each.records_count for each in part)
            at += len(part)
        return found

    def verdicts(self, seed: int = 0, *, is_over: bool = False) -> list[Judged]:
        """Return all verdicts, with both sides arriving in some order and in pieces."""
        random = Random(seed)
        check = self.check()
        entries, batches = self.entries(random), self.seen()
        told: list[Judged] = []
        record = 0
        if self.log_start:
            check.reach(0)
        while entries or (batches and check.wants_batches):
            if entries and (not batches or random.random() < 0.5):
                for _ in range(random.randint(1, 3)):
                    if entries:
                        check.expect(entries.pop(0), record)
                        record += 1
            elif check.wants_batches:
                if check.seen_to < self.log_start:
                    check.reach(self.log_start)
                for _ in range(random.randint(1, 3)):
                    if batches:
                        check.see(batches.pop(0))
            told += check.judge(self.log_start)
            if random.random() < 0.3 and not check.waiting_receipts:
                check = self.resumed(check.place)
                batches = [each for each in self.seen() if each.next_offset > check.seen_to]
        told += check.judge(self.log_start)
        if is_over:
            told += check.end()
        self.last = check
        return told

    def resumed(self, place: AuditPlace) -> LogCheck:
        """Continue as another worker does: from what was published."""
        return LogCheck(
            OURS,
            place,
            is_exclusive=self.alone,
            is_compacted=self.compacted,
            is_rewritten=self.rewritten,
        )


Place = tuple[Verdict, int, int, int | None, int | None]


def places(told: list[Judged], *, but: Verdict = COMPLETE) -> list[Place]:
    """Return (verdict, target from, to, source from, to) of verdicts other than `but`."""
    return [
        (each.verdict, each.target_from, each.target_to, each.source_from, each.source_to)
        for each in told
        if each.verdict is not but
    ]


COUNTS = [3, 1, 2, 5, 1, 1, 4, 2]
"""Batches at offsets 0, 3, 4, 6, 11, 12, 13 and 17; the log ends at 19."""


def lose(world: World) -> list[Place]:
    del world.log[4]
    return [(LOST, 4, 6, 104, 106)]


def overwrite(world: World) -> list[Place]:
    """A batch of another link lies where ours was acknowledged."""
    world.alone = False
    world.log[4] = world.batch(99, 4, 2, producer_id=THEIRS)
    return [(LOST, 4, 6, 104, 106)]


def overwrite_alone(world: World) -> list[Place]:
    world.log[4] = world.batch(99, 4, 2, producer_id=THEIRS)
    return [(LOST, 4, 6, 104, 106), (FOREIGN, 4, 6, None, None)]


def alter(world: World) -> list[Place]:
    world.log[4] = world.batch(99, 4, 2, sequence=world.sequence_at(4))
    return [(ALTERED, 4, 6, 104, 106)]


def damage(world: World) -> list[Place]:
    """The bytes changed, the header did not."""
    world.log[4][-1] ^= 1
    return [(ALTERED, 4, 6, 104, 106)]


def shorten(world: World) -> list[Place]:
    world.log[4] = world.batch(2, 4, 1, sequence=world.sequence_at(4))
    return [(ALTERED, 4, 6, 104, 106)]


def swap(world: World) -> list[Place]:
    """Two batches of one record each are swapped."""
    first, second = world.log[11], world.log[12]
    h.patch_base_offset(first, 0, 12)
    h.patch_base_offset(second, 0, 11)
    world.log[11], world.log[12] = second, first
    return [(ALTERED, 11, 12, 111, 112), (ALTERED, 12, 13, 112, 113)]


def double(world: World) -> list[Place]:
    """A batch is there twice: same epoch and sequence."""
    world.append(50, 23, 2, sequence=world.sequence_at(19))
    world.log[19] = world.batch(6, 19, 4, sequence=world.sequence_at(13))
    return [(DUPLICATED, 19, 23, None, None)]


def copy_again(world: World) -> list[Place]:
    """The mirror itself wrote the same source offsets twice."""
    again = world.receipts[6]
    world.append(6, 19, 4)
    world.receipts[-1] = world.receipts[-1]._replace(
        source_from=again.source_from, source_to=again.source_to
    )
    return [(DUPLICATED, 19, 23, 113, 117)]


def be_foreign(world: World) -> list[Place]:
    world.append(50, 22, 2, sequence=19)
    world.log[19] = world.batch(99, 19, 3, producer_id=THEIRS)
    return [(FOREIGN, 19, 22, None, None)]


def be_foreign_at_the_end(world: World) -> list[Place]:
    world.log[19] = world.batch(99, 19, 3, producer_id=THEIRS)
    return [(FOREIGN, 19, 22, None, None)]


def share(world: World) -> list[Place]:
    """Others may write into a shared copy."""
    world.alone = False
    world.log[19] = world.batch(99, 19, 3, producer_id=THEIRS)
    return []


def expire(world: World) -> list[Place]:
    """The target's retention took the first batches as a whole."""
    world.log_start = 6
    return [(CLEANED, 0, 3, 100, 103), (CLEANED, 3, 4, 103, 104), (CLEANED, 4, 6, 104, 106)]


def delete_records(world: World) -> list[Place]:
    """DeleteRecords may end within a batch; the log keeps the whole batch."""
    world.log_start = 8
    return [
        (CLEANED, 0, 3, 100, 103),
        (CLEANED, 3, 4, 103, 104),
        (CLEANED, 4, 6, 104, 106),
        (CLEANED, 6, 11, 106, 111),
    ]


def compact(world: World) -> list[Place]:
    """One batch is gone, another one lost records, a third has a delete horizon."""
    world.compacted = True
    del world.log[3]
    for offset, kept, horizon_ms in ((6, [1, 3], None), (13, range(4), 5_000)):
        header = h.read_header(world.log[offset])
        made = encode_cleaned(
            records(3 if offset == 6 else 6, header.records_count),
            list(kept),
            horizon_ms=horizon_ms,
            producer_id=OURS,
            producer_epoch=0,
            base_sequence=header.base_sequence,
        )
        h.patch_base_offset(made, 0, offset)
        world.log[offset] = made
    return [(CLEANED, 3, 4, 103, 104), (CLEANED, 6, 11, 106, 111), (CLEANED, 13, 17, 113, 117)]


def rewrite(world: World) -> list[Place]:
    """A target with its own codec: the same sequence, other bytes."""
    world.rewritten = True
    world.log[4] = encode_batch(
        records(2, 2), codec=1, producer_id=OURS, producer_epoch=0, base_sequence=4
    )
    h.patch_base_offset(world.log[4], 0, 4)
    return [(Verdict.UNVERIFIED, 4, 6, 104, 106)]


def drop_a_receipt(world: World) -> list[Place]:
    """Batches without a receipt are never complete."""
    world.receipts = [each for each in world.receipts if each.target_offset != 4]
    return [(Verdict.UNVERIFIED, 4, 6, None, None)]


FAULTS = [
    lose, overwrite, overwrite_alone, alter, damage, shorten, swap, double, copy_again, be_foreign,
    be_foreign_at_the_end, share, expire, delete_records, compact, rewrite,
]  # fmt: skip


@pytest.mark.parametrize("plant", FAULTS)
@pytest.mark.parametrize("seed", range(25))
def test_each_fault_has_its_verdict_in_any_order_of_arrival(
    plant: Callable[[World], list[Place]], seed: int
) -> None:
    world = World(COUNTS)
    expected = plant(world)
    told = world.verdicts(seed)
    assert sorted(places(told), key=str) == sorted(expected, key=str)
    assert world.last.audited_to == (world.end if world.alone else world.receipts_to)
    complete = sum(each.records_count for each in told if each.verdict is COMPLETE)
    explained = sum(to - start for verdict, start, to, source, _ in expected if source is not None)
    of_receipts = sum(each.records_count for each in world.receipts)
    assert complete + explained == of_receipts


@pytest.mark.parametrize("seed", range(25))
def test_a_batch_without_a_receipt_is_not_verified(seed: int) -> None:
    world = World(COUNTS)
    expected = drop_a_receipt(world)
    random = Random(seed)
    check = world.check()
    told: list[Judged] = []
    for receipt in world.receipts:  # one record for each, as their sequences do not follow
        sequence = h.read_header(world.log[receipt.target_offset]).base_sequence
        check.expect(Receipts(1, 0, sequence, (receipt,)), 0)
        if random.random() < 0.5:
            told += check.judge(0)
    for batch in world.seen():
        check.see(batch)
        told += check.judge(0)
    assert places(told) == expected


def test_a_batch_that_a_successor_found_compacted_is_cleaned() -> None:
    """Its receipt has the CRC of the rest of the batch."""
    world = World(COUNTS)
    compact(world)
    header = h.read_header(world.log[6])
    of_part = next(each for each in world.receipts if each.target_offset == 6)
    world.receipts[world.receipts.index(of_part)] = of_part._replace(crc=header.crc)
    assert (CLEANED, 6, 11, 106, 111) in places(world.verdicts(1))


def test_compacted_copies_are_counted_once_if_two_workers_reported_them() -> None:
    """The first worker reported a batch; its successor found it and the next two gone."""
    world = World([3, 2, 4, 2, 1])
    world.compacted = True
    for offset in (3, 5, 9):
        del world.log[offset]
    first, last = world.receipts[:2], world.receipts[4]
    gone = Receipt(103, 111, 3, 8, NO_CRC, -1)
    check = world.check()
    check.expect(Receipts(1, 0, 0, tuple(first)), 0)
    check.expect(Receipts(1, 0, 3, (gone, last)), 1)
    for batch in world.seen():
        check.see(batch)
    told = [(each.verdict, each.target_from, each.target_to) for each in check.judge(0)]
    assert told == [(COMPLETE, 0, 3), (CLEANED, 3, 5), (CLEANED, 5, 11), (COMPLETE, 11, 12)]


def test_nothing_is_judged_that_was_not_read() -> None:
    world = World(COUNTS)
    check = world.check()
    for number, entry in enumerate(world.entries(Random(1))):
        check.expect(entry, number)
    assert list(check.judge(0)) == []
    for batch in world.seen()[:3]:
        check.see(batch)
    assert [each.verdict for each in check.judge(0)] == [COMPLETE] * 3
    assert (check.audited_to, check.place.audited_source) == (6, 106)
    assert check.waiting_receipts == 5


def test_a_log_that_ends_early_has_lost_later_acknowledged_batches() -> None:
    world = World(COUNTS)
    del world.log[13], world.log[17]
    told = world.verdicts(3)
    assert places(told) == []
    assert list(world.last.end()) != []
    again = world.verdicts(3, is_over=True)
    assert places(again) == [(LOST, 13, 17, 113, 117), (LOST, 17, 19, 117, 119)]


def test_a_truncated_log_is_read_again() -> None:
    world = World(COUNTS)
    check = world.check()
    entries = world.entries(Random(1))
    check.expect(entries[0], 0)
    for batch in world.seen():
        check.see(batch)
    list(check.judge(0))
    check.truncate(11)
    assert check.seen_to == 11
    for number, entry in enumerate(entries[1:], 1):
        check.expect(entry, number)
    del world.log[11]
    world.log[11] = world.batch(99, 11, 1, sequence=world.sequence_at(11))
    for batch in world.seen():
        check.see(batch)
    told = [each for each in check.judge(0) if each.verdict is not COMPLETE]
    assert places(told) == [(ALTERED, 11, 12, 111, 112)]


def test_repeated_receipts_count_once() -> None:
    world = World(COUNTS)
    check = world.check()
    for receipt in world.receipts:
        entry = Receipts(1, 0, world.sequence_at(receipt.target_offset), (receipt,))
        check.expect(entry, 0)
        check.expect(entry, 1)
    for batch in world.seen():
        check.see(batch)
    told = list(check.judge(0))
    check.expect(Receipts(1, 0, 0, tuple(world.receipts)), 2)
    told += check.judge(0)
    assert [each.verdict for each in told] == [COMPLETE] * len(COUNTS)


def test_what_waits_is_bounded() -> None:
    check = LogCheck(OURS, AuditPlace(0), is_exclusive=True, is_compacted=False, is_rewritten=False)
    receipts = tuple(Receipt(n, n + 1, n, 1, 0, 0) for n in range(WAITING_MAX))
    before = check.wants_receipts, check.wants_batches
    assert before == (True, False), "before the first receipt nothing can be judged"
    check.expect(Receipts(1, 0, 0, receipts), 0)
    assert (check.wants_receipts, check.wants_batches) == (False, True)
    assert check.expected_to == WAITING_MAX


def test_a_new_epoch_may_begin_further_back() -> None:
    """A generation copies the source's new records, with sequences from 0."""
    world = World([2, 2])
    check = world.check()
    check.expect(Receipts(1, 0, 0, tuple(world.receipts)), 0)
    again = encode_batch(records(9, 2), producer_id=OURS, producer_epoch=1, base_sequence=0)
    h.patch_base_offset(again, 0, 4)
    world.log[4] = again
    header = h.read_header(again)
    check.expect(Receipts(1, 1, 0, (Receipt(102, 104, 4, 2, header.crc, 1_009),)), 1)
    for batch in world.seen():
        check.see(batch)
    assert [each.verdict for each in check.judge(0)] == [COMPLETE] * 3
    late = encode_batch(records(10, 1), producer_id=OURS, producer_epoch=0, base_sequence=4)
    h.patch_base_offset(late, 0, 6)
    check.see(SeenBatch(h.read_header(late), True))
    assert places(list(check.judge(0))) == [(DUPLICATED, 6, 7, None, None)]


def test_a_generation_below_acknowledged_offsets_shows_a_truncation() -> None:
    """The batches of waiting receipts are lost; later batches there are compared."""
    world = World([3, 2, 4])
    check = world.check()
    check.expect(Receipts(1, 0, 0, tuple(world.receipts)), 0)
    for batch in world.seen()[:2]:
        check.see(batch)
    assert [each.verdict for each in check.judge(0)] == [COMPLETE, COMPLETE]
    del world.log[5]
    check.truncate(5)
    again = encode_batch(records(9, 2), producer_id=OURS, producer_epoch=1, base_sequence=0)
    h.patch_base_offset(again, 0, 5)
    header = h.read_header(again)
    receipt = Receipt(205, 207, 5, 2, header.crc, header.max_timestamp)
    check.expect(Receipts(1, 1, 0, (receipt,)), 1)
    check.see(SeenBatch(header, is_sound=True))
    told = list(check.judge(0))
    assert [(each.verdict, each.target_from, each.source_from) for each in told] == [
        (LOST, 5, 105),
        (COMPLETE, 5, 205),
    ]
    assert check.audited_to == 7
    assert check.waiting_receipts == 0


def test_receipts_of_an_older_epoch_do_not_count_below_the_next_epoch() -> None:
    world = World([3, 2])
    check = world.check()
    check.expect(Receipts(1, 1, 0, (world.receipts[0],)), 0)
    check.expect(Receipts(1, 0, 0, (world.receipts[0],)), 1)
    assert check.waiting_receipts == 1
