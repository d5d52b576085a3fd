"""Compactions beside a job."""

from __future__ import annotations

import logging
import threading

import pytest

from spark_global.kept.upkeep import Compacting, beside

OFTEN_MINUTES = 0.0001


def test_it_is_repeated_and_a_failure_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []
    enough = threading.Event()

    def compact() -> str:
        done.append(len(done))
        if len(done) == 1:
            raise OSError("disk is full")
        if len(done) == 3:
            enough.set()
        return "6 files became 1"

    with caplog.at_level(logging.INFO), beside(Compacting(compact, OFTEN_MINUTES)):
        assert enough.wait(60)
    count = len(done)
    assert "the table was not compacted: disk is full" in caplog.text
    assert "6 files became 1" in caplog.text
    # The thread has ended.
    assert not [each for each in threading.enumerate() if each.name == "upkeep"]
    assert len(done) == count


def test_zero_minutes_is_never() -> None:
    with beside(Compacting(lambda: pytest.fail("compacted"), 0)):
        assert not [each for each in threading.enumerate() if each.name == "upkeep"]
    with beside(None):
        pass
