"""Lag: known, unknown, never a zero that means unknown."""

from __future__ import annotations

from mirror_maker.metrics.lag import (
    SAMPLES_MAX,
    STALE_MS,
    UNKNOWN_LAG,
    HighWatermarkHistory,
    Lag,
    LastAnswer,
)


def test_nothing_seen_is_unknown() -> None:
    assert HighWatermarkHistory().lag(0, 0, 0, 0) == UNKNOWN_LAG


def test_caught_up() -> None:
    history = HighWatermarkHistory()
    history.observe(10, 1_000)
    assert history.lag(10, 0, 10, 1_500) == Lag(0, 0, 0.0)


def test_seconds_count_from_when_the_source_went_past_the_position() -> None:
    history = HighWatermarkHistory()
    history.observe(10, 1_000)
    history.observe(20, 2_000)
    history.observe(30, 3_000)
    assert history.lag(10, 50, 30, 4_000) == Lag(20, 50, 2.0)
    assert history.lag(15, 50, 30, 4_000).seconds == 2.0
    assert history.lag(20, 50, 30, 4_000) == Lag(10, 50, 1.0)


def test_a_backlog_from_before_has_an_unknown_age() -> None:
    history = HighWatermarkHistory()
    history.observe(100, 1_000)
    assert history.lag(40, 0, 60, 2_000) == Lag(60, None, None)


def test_a_silent_source_makes_everything_unknown() -> None:
    history = HighWatermarkHistory()
    history.observe(10, 0)
    assert history.lag(10, 0, 10, STALE_MS) != UNKNOWN_LAG
    assert history.lag(10, 0, 10, STALE_MS + 1) == UNKNOWN_LAG


def test_samples_are_bounded_and_a_flow_that_stands_keeps_its_age() -> None:
    history = HighWatermarkHistory()
    for index in range(20 * SAMPLES_MAX):
        history.observe(index, 1_000 * index)
        assert len(history._offsets) <= SAMPLES_MAX
    now_ms = 1_000 * 20 * SAMPLES_MAX
    assert history.lag(0, 0, 0, now_ms).seconds == 20 * SAMPLES_MAX - 1
    for position in (500, 5_000, 10_000):
        age = history.lag(position, 0, position, now_ms).seconds
        assert age is not None
        assert age >= 20 * SAMPLES_MAX - position - 1


def test_a_source_that_went_back_forgets_its_samples() -> None:
    history = HighWatermarkHistory()
    history.observe(100, 1_000)
    history.observe(5, 2_000)
    assert history.lag(5, 0, 5, 2_000) == Lag(0, 0, 0.0)
    assert history.lag(3, 0, 3, 2_000).seconds is None


def test_whoever_tells_only_of_what_moves_is_believed_as_long_as_it_answers() -> None:
    history, teller = HighWatermarkHistory(), LastAnswer()
    history.follow(teller)
    teller.at_ms = 0
    assert history.lag(0, 0, 0, 0) == UNKNOWN_LAG, "it has never told where the end is"
    history.observe(10, 0)
    teller.at_ms = 5 * STALE_MS
    assert history.lag(10, 0, 10, 6 * STALE_MS) == Lag(0, 0, 0.0)
    assert history.lag(10, 0, 10, 6 * STALE_MS + 1) == UNKNOWN_LAG


def test_what_was_said_before_a_teller_was_left_ages_from_then_on() -> None:
    history, teller, other = HighWatermarkHistory(), LastAnswer(), LastAnswer()
    history.observe(10, 0)
    history.follow(teller)
    teller.at_ms = 4 * STALE_MS
    history.unfollow(other)
    history.unfollow(teller)
    teller.at_ms = 9 * STALE_MS
    assert history.lag(10, 0, 10, 5 * STALE_MS) == Lag(0, 0, 0.0)
    assert history.lag(10, 0, 10, 5 * STALE_MS + 1) == UNKNOWN_LAG
