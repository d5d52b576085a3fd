"""The conditions for lost, doubled, out of order, altered, late and unknown records."""

from __future__ import annotations

from aggregator.probe.ledger import SEQUENCES_LISTED_MAX, Fault, Ledger
from aggregator.probe.settings import ProbeSettings

SETTINGS = ProbeSettings(late_ms=5_000, lost_ms=10_000, window_ms=3_600_000, window_records_max=100)


def counts(ledger: Ledger) -> dict[str, int]:
    """Return the counts of the faults that occurred."""
    return {fault.value: each.count for fault, each in ledger.faults.items() if each.count}


def sent(count: int, *, at_ms: float = 0.0) -> Ledger:
    """Send this many records, all acknowledged."""
    ledger = Ledger(SETTINGS, 0.0)
    for _ in range(count):
        ledger.acknowledged(ledger.begin(at_ms))
    return ledger


def test_what_arrives_in_order_is_no_fault_and_has_a_latency() -> None:
    ledger = sent(3)
    assert [ledger.arrived(sequence, 40 + sequence, 7.5) for sequence in range(3)] == [7.5] * 3
    ledger.tick(1_000_000)
    assert (ledger.sent, ledger.received, ledger.under_way, counts(ledger)) == (3, 3, 0, {})
    assert ledger.last_arrival_ms == 7.5


def test_a_record_that_a_later_one_overtook_is_lost_after_the_limit() -> None:
    ledger = sent(4)
    ledger.arrived(0, 0, 10)
    ledger.arrived(2, 1, 20)
    ledger.tick(20 + SETTINGS.lost_ms - 1)
    assert counts(ledger) == {}
    ledger.tick(20 + SETTINGS.lost_ms)
    assert counts(ledger) == {"lost": 1}
    assert list(ledger.faults[Fault.LOST].sequences) == [1]
    assert ledger.under_way == 1  # the last one, which nothing overtook


def test_what_nothing_overtook_is_late_and_never_lost() -> None:
    ledger = sent(2)
    ledger.arrived(0, 0, 10)
    assert (ledger.late(SETTINGS.late_ms), ledger.late(SETTINGS.late_ms + 1)) == (0, 1)
    ledger.tick(SETTINGS.window_ms - 1)
    assert (ledger.under_way, counts(ledger)) == (1, {})
    ledger.arrived(1, 1, SETTINGS.window_ms)
    assert (ledger.under_way, ledger.received, counts(ledger)) == (0, 2, {})


def test_a_later_record_that_comes_first_makes_the_earlier_one_out_of_order() -> None:
    ledger = sent(2)
    ledger.arrived(1, 0, 10)
    assert ledger.arrived(0, 1, 20) == 20
    ledger.tick(20 + SETTINGS.lost_ms)
    assert counts(ledger) == {"out_of_order": 1}


def test_a_lost_record_that_arrives_after_all_is_out_of_order_and_not_lost() -> None:
    ledger = sent(3)
    ledger.arrived(2, 0, 0)
    ledger.tick(SETTINGS.lost_ms)
    assert counts(ledger) == {"lost": 2}
    ledger.arrived(0, 1, 12_000)
    assert counts(ledger) == {"lost": 1, "out_of_order": 1}
    assert list(ledger.faults[Fault.LOST].sequences) == [1]


def test_a_record_at_two_offsets_is_doubled_and_one_that_is_read_again_is_not() -> None:
    ledger = sent(2)
    for offset, sequence in enumerate((0, 1)):
        ledger.arrived(sequence, offset, 10)
    for offset, sequence in enumerate((0, 1)):
        assert ledger.arrived(sequence, offset, 20) is None
    assert counts(ledger) == {}
    assert ledger.arrived(0, 2, 30) is None
    assert counts(ledger) == {"doubled": 1}
    ledger.arrived(0, 2, 40)
    assert counts(ledger) == {"doubled": 1}
    ledger.arrived(0, 3, 50)
    assert counts(ledger) == {"doubled": 2}
    assert ledger.received == 2


def test_a_copy_that_was_deleted_and_created_again_is_read_without_a_fault() -> None:
    ledger = sent(5)
    for sequence in range(3):
        ledger.arrived(sequence, 100 + sequence, 10)
    for sequence in range(5):  # all of it again, at lower offsets
        ledger.arrived(sequence, sequence, 20)
    assert (ledger.received, counts(ledger)) == (5, {})


def test_an_altered_record_is_altered_and_not_lost() -> None:
    ledger = sent(2)
    assert ledger.arrived(0, 0, 10, is_intact=False) is None
    ledger.arrived(1, 1, 20)
    ledger.tick(20 + SETTINGS.lost_ms)
    assert (ledger.received, counts(ledger)) == (2, {"altered": 1})
    ledger.altered(2, 30)
    ledger.altered(2, 40)  # read again
    assert counts(ledger) == {"altered": 2}
    assert list(ledger.faults[Fault.ALTERED].sequences) == [0]


def test_an_unknown_outcome_is_no_fault_whether_the_record_arrives_or_not() -> None:
    ledger = Ledger(SETTINGS, 0.0)
    never, late = ledger.begin(0), ledger.begin(0)
    for sequence in (never, late):
        ledger.unknown(sequence)
    ledger.acknowledged(ledger.begin(0))
    assert (ledger.sent, ledger.unknown_count, ledger.under_way) == (1, 2, 1)
    ledger.arrived(2, 0, 10)
    assert ledger.arrived(late, 1, 20) == 20  # it landed behind a later one
    ledger.tick(20 + SETTINGS.lost_ms)
    assert counts(ledger) == {}
    assert (ledger.sent, ledger.received, ledger.unknown_count) == (2, 2, 1)
    ledger.arrived(late, 2, 40_000)
    assert counts(ledger) == {"doubled": 1}


def test_a_record_may_arrive_before_its_delivery_report() -> None:
    ledger = Ledger(SETTINGS, 0.0)
    sequence = ledger.begin(0)
    assert ledger.arrived(sequence, 0, 3) == 3
    ledger.acknowledged(sequence)
    assert (ledger.sent, ledger.received, ledger.under_way) == (1, 1, 0)


def test_what_left_the_window_is_not_judged() -> None:
    """An outage may last longer than the source's retention."""
    ledger = sent(2)
    ledger.arrived(0, 0, 10)
    ledger.acknowledged(ledger.begin(SETTINGS.window_ms))
    assert (ledger.expired, ledger.under_way) == (1, 1)
    ledger.arrived(2, 1, SETTINGS.window_ms + 10)  # the source has deleted 1
    ledger.tick(SETTINGS.window_ms + 10 + SETTINGS.lost_ms)
    assert counts(ledger) == {}
    ledger.arrived(0, 2, SETTINGS.window_ms + 20_000)
    ledger.arrived(1, 3, SETTINGS.window_ms + 20_000)
    assert (ledger.sent, ledger.received, counts(ledger)) == (3, 2, {})


def test_the_window_has_a_greatest_number_of_records() -> None:
    ledger = sent(SETTINGS.window_records_max + 5)
    assert (ledger.expired, ledger.under_way) == (5, SETTINGS.window_records_max)


def test_a_late_acknowledgement_of_a_forgotten_record_changes_nothing() -> None:
    ledger = Ledger(SETTINGS, 0.0)
    first = ledger.begin(0)
    ledger.tick(SETTINGS.window_ms)
    ledger.acknowledged(first)
    ledger.unknown(first)
    assert (ledger.sent, ledger.expired, ledger.unknown_count) == (0, 0, 0)


def test_only_the_latest_faults_are_named_and_all_are_counted() -> None:
    ledger = sent(SEQUENCES_LISTED_MAX + 3)
    ledger.arrived(SEQUENCES_LISTED_MAX + 2, 0, 0)
    ledger.tick(SETTINGS.lost_ms)
    lost = ledger.faults[Fault.LOST]
    assert lost.count == SEQUENCES_LISTED_MAX + 2
    assert list(lost.sequences) == list(range(2, SEQUENCES_LISTED_MAX + 2))
