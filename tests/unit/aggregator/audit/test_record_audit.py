"""The audit record by record: each fault has its verdict and offsets, and there is no other."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from aggregator.audit.record_audit import RecordAudit, RecordRules
from local_cluster.records.batch import Record
from mirror_maker.formats import OffsetMap
from mirror_maker.formats.offset_map import Run
from mirror_maker.formats.verdicts import Verdict
from mirror_maker.rules.gap_ranges import NO_GAPS, GapRanges

OURS, OTHERS = 7, 8
RULES = RecordRules(producer_id=OURS)


class Partition:
    """Ten records at source offsets 0, 2, 4 ... with copies at 100, 101, 102 ..."""

    def __init__(self) -> None:
        self.originals = [_record(2 * index, index) for index in range(10)]
        self.copies = [(_record(100 + index, index), OURS) for index in range(10)]
        self.map = OffsetMap(0, 100)
        for index in range(10):
            self.map.append(Run(2 * index, 100 + index, 1))
        self.map.advance(20)
        self.rules = RULES
        self.lost = self.foreign = NO_GAPS
        self.target_log_start, self.target_log_end = 0, 1_000

    def audit(self, random: Random | None = None) -> RecordAudit:
        """Return the audit, with both logs read in a random order."""
        random = random or Random(0)
        audit = RecordAudit(
            self.map,
            self.rules,
            lost=self.lost,
            foreign=self.foreign,
            target_log_start=self.target_log_start,
            target_log_end=self.target_log_end,
        )
        originals, copies = list(self.originals), list(self.copies)
        while audit.wants_source or audit.wants_target:
            if audit.wants_source or random.random() < 0.3:
                taken = originals[: random.randint(1, 4)]
                del originals[: len(taken)]
                audit.add_source(taken) if taken else audit.end_source()
            if audit.wants_target or random.random() < 0.3:
                if copies:
                    record, producer_id = copies.pop(0)
                    audit.add_target([record], producer_id)
                else:
                    audit.end_target()
            audit.judge()
        return audit


def _record(offset: int, serial: int) -> Record:
    return Record(offset, 1000 + serial, b"key %d" % serial, b"value %d" % serial)


@pytest.fixture(params=range(10))
def random(request: pytest.FixtureRequest) -> Random:
    """Chooses the order in which the logs are read."""
    return Random(request.param)


def _faults(audit: RecordAudit) -> list[tuple[Verdict, int | None, int | None]]:
    return [
        (each.verdict, each.source_offset, each.target_offset) for each in audit.findings.faults
    ]


def test_equal_logs_are_complete(random: Random) -> None:
    audit = Partition().audit(random)
    assert audit.findings.counts == {Verdict.COMPLETE: 10}
    assert not audit.findings.has_faults


def test_a_copy_that_the_map_has_and_the_log_has_not_is_lost(random: Random) -> None:
    world = Partition()
    del world.copies[3]
    audit = world.audit(random)
    assert _faults(audit) == [(Verdict.LOST, 6, 103)]
    assert audit.findings.counts == {Verdict.COMPLETE: 9, Verdict.LOST: 1}


def test_a_record_that_is_neither_mapped_nor_journalled_is_lost(random: Random) -> None:
    world = Partition()
    world.originals.insert(4, _record(7, 99))
    assert _faults(world.audit(random)) == [(Verdict.LOST, 7, None)]
    world.lost = GapRanges([(7, 8)])
    assert world.audit(random).findings.counts == {Verdict.COMPLETE: 10, Verdict.EXPECTED_GAP: 1}


def test_other_bytes_are_altered_and_say_what_differs(random: Random) -> None:
    world = Partition()
    record, producer_id = world.copies[2]
    world.copies[2] = record._replace(value=b"other"), producer_id
    audit = world.audit(random)
    assert _faults(audit) == [(Verdict.ALTERED, 4, 102)]
    assert audit.findings.faults[0].detail == "the copy of source offset 4 holds another value"
    assert audit.findings.faults[0].original == world.originals[2]


def test_swapped_copies_are_both_altered(random: Random) -> None:
    world = Partition()
    one, other = world.copies[2][0], world.copies[3][0]
    world.copies[2] = other._replace(offset=one.offset), OURS
    world.copies[3] = one._replace(offset=other.offset), OURS
    assert _faults(world.audit(random)) == [
        (Verdict.ALTERED, 4, 102),
        (Verdict.ALTERED, 6, 103),
    ]


def test_a_copy_that_comes_again_is_doubled(random: Random) -> None:
    world = Partition()
    world.copies.append((world.copies[5][0]._replace(offset=110), OTHERS))
    assert _faults(world.audit(random)) == [(Verdict.DUPLICATED, 10, 110)]


def test_a_record_of_others_is_foreign_unless_the_copy_is_shared(random: Random) -> None:
    world = Partition()
    world.copies.append((_record(110, 77), OTHERS))
    assert _faults(world.audit(random)) == [(Verdict.FOREIGN, None, 110)]
    world.foreign = GapRanges([(110, 111)])
    assert world.audit(random).findings.counts == {Verdict.COMPLETE: 10, Verdict.EXPECTED_GAP: 1}
    world.foreign = NO_GAPS
    world.rules = replace(RULES, is_shared=True)
    assert world.audit(random).findings.counts == {Verdict.COMPLETE: 10}


def test_what_is_not_mapped_yet_is_late_or_unverified(random: Random) -> None:
    world = Partition()
    world.originals += [_record(20, 20), _record(22, 22)]
    world.copies.append((_record(110, 20), OURS))
    audit = world.audit(random)
    assert audit.findings.counts == {Verdict.COMPLETE: 10, Verdict.LATE: 2, Verdict.UNVERIFIED: 1}
    assert audit.findings.unverified == {"it is not mapped yet": 1}


def test_copies_below_the_targets_log_start_are_cleaned(random: Random) -> None:
    world = Partition()
    del world.copies[:4]
    world.target_log_start = 104
    assert world.audit(random).findings.counts == {Verdict.CLEANED: 4, Verdict.COMPLETE: 6}


def test_copies_behind_what_can_be_read_are_unverified(random: Random) -> None:
    world = Partition()
    del world.copies[7:]  # another's transaction is open at 107
    world.target_log_end = 107
    audit = world.audit(random)
    assert audit.findings.counts == {Verdict.COMPLETE: 7, Verdict.UNVERIFIED: 3}


def test_retention_that_passes_the_reader_cleans_and_loses_nothing() -> None:
    world = Partition()
    audit = RecordAudit(
        world.map, RULES, lost=NO_GAPS, foreign=NO_GAPS, target_log_start=0, target_log_end=110
    )
    audit.add_target([world.copies[0][0]], OURS)
    audit.add_source(world.originals)
    audit.trim_target(106)
    for record, producer_id in world.copies[6:]:
        audit.add_target([record], producer_id)
    audit.end_source()
    audit.end_target()
    audit.judge()
    assert audit.findings.counts == {Verdict.COMPLETE: 5, Verdict.CLEANED: 5}


def test_times_that_the_target_gives_are_no_alteration(random: Random) -> None:
    world = Partition()
    world.rules = replace(RULES, is_rewritten=True)
    world.copies = [(each._replace(timestamp_ms=5), producer) for each, producer in world.copies]
    assert not world.audit(random).findings.has_faults


def test_copies_whose_originals_are_gone_are_unverified(random: Random) -> None:
    world = Partition()
    del world.originals[:3]
    audit = world.audit(random)
    assert audit.findings.counts == {Verdict.UNVERIFIED: 3, Verdict.COMPLETE: 7}
    assert audit.findings.unverified == {"the source no longer has it": 3}


def test_compaction_may_take_a_copy_only_if_a_later_one_has_its_key(random: Random) -> None:
    world = Partition()
    world.rules = replace(RULES, is_compacted=True)
    world.originals[8] = world.originals[8]._replace(key=b"key 1")
    world.copies[8] = world.copies[8][0]._replace(key=b"key 1"), OURS
    del world.copies[1]
    assert world.audit(random).findings.counts == {Verdict.COMPLETE: 9, Verdict.CLEANED: 1}
    del world.copies[1]  # of key 2, which does not come again
    assert _faults(world.audit(random)) == [(Verdict.LOST, 4, None)]
    world.originals[2] = world.originals[2]._replace(value=None)  # it was a tombstone
    assert not world.audit(random).findings.has_faults


def test_rules_of_the_link_hide_what_they_leave_out_and_nothing_else(random: Random) -> None:
    world = Partition()
    world.originals.insert(4, _record(7, 99))
    world.rules = replace(RULES, leaves_out="the link has a filter")
    audit = world.audit(random)
    assert audit.findings.counts == {Verdict.COMPLETE: 10, Verdict.UNVERIFIED: 1}
    assert audit.findings.unverified == {"the link has a filter": 1}
    del world.copies[3]
    assert _faults(world.audit(random)) == [(Verdict.LOST, 6, 103)]


def test_transformed_copies_are_only_looked_for(random: Random) -> None:
    world = Partition()
    world.rules = replace(RULES, is_transformed=True)
    world.copies = [(each._replace(value=b""), producer) for each, producer in world.copies]
    del world.copies[3]
    audit = world.audit(random)
    assert _faults(audit) == [(Verdict.LOST, 6, 103)]
    assert audit.findings.counts[Verdict.UNVERIFIED] == 9


def test_a_hole_of_the_map_is_unverified(random: Random) -> None:
    world = Partition()
    world.map.skip_unknown(30, 113)
    world.map.append(Run(30, 113, 1))
    world.copies += [(_record(110 + each, 50 + each), OURS) for each in range(3)]
    world.copies.append((_record(113, 30), OURS))
    world.originals += [_record(25, 52), _record(30, 30)]
    audit = world.audit(random)
    assert not audit.findings.has_faults, audit.findings.faults
    assert audit.findings.counts == {Verdict.COMPLETE: 11, Verdict.UNVERIFIED: 4}
