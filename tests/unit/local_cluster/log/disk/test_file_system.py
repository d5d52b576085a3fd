"""When a round syncs file by file, and when the whole file system."""

from __future__ import annotations

from local_cluster.log.disk.file_system import (
    BACKOFF_SECONDS,
    SLOW_SECONDS_MIN,
    WHOLE_FILES_MIN,
    SyncChoice,
)


def test_few_files_are_synced_one_by_one_and_many_as_a_whole() -> None:
    choice = SyncChoice(has_whole=True)
    assert not choice.is_whole(1, 0.0)
    assert not choice.is_whole(WHOLE_FILES_MIN - 1, 0.0)
    assert choice.is_whole(WHOLE_FILES_MIN, 0.0)
    assert not SyncChoice(has_whole=False).is_whole(1000, 0.0)


def test_after_a_slow_round_files_are_synced_one_by_one_for_a_while() -> None:
    choice = SyncChoice(has_whole=True)
    for _ in range(100):
        choice.record(1, 0.001, 5.0, is_whole=False)
    choice.record(10, 2.0, 7.0, is_whole=True)
    assert not choice.is_whole(10, 7.0 + BACKOFF_SECONDS - 0.1)
    assert choice.is_whole(10, 7.0 + BACKOFF_SECONDS)


def test_a_round_that_costs_no_more_than_its_files_is_not_slow() -> None:
    choice = SyncChoice(has_whole=True)
    for _ in range(100):
        choice.record(1, 0.010, 5.0, is_whole=False)
    choice.record(500, 4.0, 7.0, is_whole=True)
    choice.record(3, SLOW_SECONDS_MIN, 8.0, is_whole=True)
    assert choice.is_whole(3, 8.0)
