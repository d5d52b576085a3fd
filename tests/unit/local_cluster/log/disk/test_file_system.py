"""File by file, or the file system as a whole."""

from __future__ import annotations

from local_cluster.log.disk.file_system import (
    BACKOFF_SECONDS,
    SLOW_SECONDS_MIN,
    WHOLE_FILES_MIN,
    SyncChoice,
)


def test_few_files_go_by_themselves_and_many_as_a_whole() -> None:
    choice = SyncChoice(has_whole=True)
    assert not choice.is_whole(1, 0.0)
    assert not choice.is_whole(WHOLE_FILES_MIN - 1, 0.0)
    assert choice.is_whole(WHOLE_FILES_MIN, 0.0)
    assert not SyncChoice(has_whole=False).is_whole(1000, 0.0)


def test_a_slow_round_is_followed_by_a_while_file_by_file() -> None:
    choice = SyncChoice(has_whole=True)
    for _ in range(100):
        choice.record(1, 0.001, 5.0, is_whole=False)
    choice.record(10, 2.0, 7.0, is_whole=True)
    assert not choice.is_whole(10, 7.0 + BACKOFF_SECONDS - 0.1)
    assert choice.is_whole(10, 7.0 + BACKOFF_SECONDS)


def test_what_the_files_would_have_cost_as_well_is_not_slow() -> None:
    choice = SyncChoice(has_whole=True)
    for _ in range(100):
        choice.record(1, 0.010, 5.0, is_whole=False)
    choice.record(500, 4.0, 7.0, is_whole=True)
    choice.record(3, SLOW_SECONDS_MIN, 8.0, is_whole=True)
    assert choice.is_whole(3, 8.0)
