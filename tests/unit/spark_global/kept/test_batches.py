"""Which batches of a query a table takes: a model with kills, late commits, old checkpoints."""

from __future__ import annotations

import random

import pytest

from local_cluster.client.model import TopicPartition
from spark_global.kept.batches import (
    Batch,
    BatchRefusedError,
    Held,
    Verdict,
    decide_commit,
    positions_number,
)
from spark_global.streaming.positions import StreamPositions


def at(offset: int) -> StreamPositions:
    return StreamPositions(topic_ids={"t": ""}, offsets={TopicPartition("t", 0): offset})


def batch(number: int, start: int, end: int) -> Batch:
    return Batch(number=number, start=at(start), end=at(end))


def test_a_batch_is_committed_once_and_in_order() -> None:
    first, second = batch(0, 0, 10), batch(1, 10, 20)
    assert decide_commit(None, first) is Verdict.COMMIT
    assert decide_commit(first.after, first) is Verdict.DONE
    assert decide_commit(first.after, second) is Verdict.COMMIT
    assert 0 <= positions_number(at(5)) < 2**63


@pytest.mark.parametrize(
    ("held", "wanted", "says"),
    [
        (None, batch(3, 0, 10), "has none of it"),
        (batch(5, 0, 9).after, batch(4, 0, 10), "a newer run of the query has gone on"),
        (batch(4, 0, 9).after, batch(4, 0, 10), "does not begin there"),
        (batch(3, 0, 9).after, batch(4, 8, 10), "does not begin there"),
        (batch(2, 0, 8).after, batch(4, 8, 10), "does not begin there"),
    ],
)
def test_what_is_not_the_next_batch_is_refused(held: Held | None, wanted: Batch, says: str) -> None:
    with pytest.raises(BatchRefusedError, match=says):
        decide_commit(held, wanted)


@pytest.mark.parametrize("seed", range(40))
def test_commits_that_arrive_late_neither_lose_nor_double(seed: int) -> None:
    """Writers check a version, sleep, and commit on it; the table takes the next version only."""
    chance = random.Random(seed)
    plan = [batch(n, n * 10, n * 10 + 10) for n in range(8)]
    version, held = 0, None
    rows: list[int] = []
    checked: list[tuple[int, Batch]] = []  # of writers that sleep between check and commit
    done = 0
    while done < len(plan):
        wanted = plan[chance.randint(max(0, done - 1), done)]  # a run again, or the next batch
        try:
            if decide_commit(held, wanted) is Verdict.COMMIT:
                checked.append((version, wanted))
            else:
                done = max(done, wanted.number + 1)
        except BatchRefusedError:
            assert held is not None and held.batch > wanted.number
        if chance.random() < 0.3:
            version += 1  # a compaction
        if checked and chance.random() < 0.6:
            base, late = checked.pop(chance.randrange(len(checked)))
            if base == version:
                version, held = version + 1, late.after
                rows.append(late.number)
    assert rows == [each.number for each in plan]
