"""The timer queue: one deadline per key, earliest first, bounded by the number of timers."""

from __future__ import annotations

from local_cluster.groups.timers import TimerKey, TimerQueue

A = TimerKey("session", "g", "a")
B = TimerKey("session", "g", "b")
C = TimerKey("join", "g")


def test_due_timers_come_in_order_of_their_deadlines() -> None:
    timers = TimerQueue()
    timers.schedule(A, 20)
    timers.schedule(B, 10)
    assert timers.next_deadline_ms() == 10
    assert timers.pop_due(9) is None
    assert timers.pop_due(20) == B
    assert timers.pop_due(20) == A
    assert timers.pop_due(20) is None
    assert timers.next_deadline_ms() is None


def test_a_later_deadline_replaces_the_earlier_one() -> None:
    timers = TimerQueue()
    timers.schedule(A, 10)
    timers.schedule(A, 30)
    assert timers.pop_due(29) is None
    assert timers.next_deadline_ms() == 30
    assert timers.pop_due(30) == A
    assert timers.pop_due(99) is None


def test_an_earlier_deadline_replaces_the_later_one() -> None:
    timers = TimerQueue()
    timers.schedule(A, 30)
    timers.schedule(A, 10)
    assert timers.pop_due(10) == A
    assert timers.pop_due(99) is None


def test_a_deadline_is_brought_forward_and_never_put_off() -> None:
    timers = TimerQueue()
    timers.schedule(A, 30)
    timers.bring_forward(A, 40)
    timers.bring_forward(A, None)
    assert timers.next_deadline_ms() == 30
    timers.bring_forward(A, 10)
    assert timers.pop_due(10) == A
    assert timers.pop_due(99) is None


def test_a_cancelled_timer_never_fires() -> None:
    timers = TimerQueue()
    timers.schedule(A, 10)
    timers.cancel(A)
    timers.cancel(B)
    assert timers.next_deadline_ms() is None
    assert timers.pop_due(99) is None
    timers.schedule(A, 50)
    assert timers.pop_due(49) is None
    assert timers.pop_due(50) == A


def test_the_heap_stays_in_proportion_to_the_timers() -> None:
    timers = TimerQueue()
    for round_number in range(10_000):
        timers.schedule(A, 1_000_000 - round_number)
        timers.cancel(B)
        timers.schedule(B, round_number)
    assert len(timers) == 2
    assert len(timers._heap) < 100
    assert timers.pop_due(2_000_000) == B
    assert timers.pop_due(2_000_000) == A


def test_defer_moves_earlier_deadlines() -> None:
    timers = TimerQueue()
    timers.schedule(A, 10)
    timers.schedule(B, 50)
    timers.schedule(C, 20)
    timers.defer(30, stays=lambda key: key == C)
    assert timers.pop_due(29) == C
    assert (timers.deadline_ms(A), timers.deadline_ms(B)) == (30, 50)
    assert timers.pop_due(29) is None
    assert timers.pop_due(30) == A
    assert timers.next_deadline_ms() == 50
