"""The next step of a future replica, through any history of its replica."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from local_cluster.log.state.epochs import LeaderEpochs
from local_cluster.replication.future_replica import (
    CaughtUp,
    CopyFrom,
    Step,
    TruncateFully,
    TruncateTo,
    decide_step,
)


@dataclass
class Log:
    """A log as the epochs of its records, one after another."""

    records: list[int]
    log_start_offset: int = 0
    leader_epochs: LeaderEpochs = field(init=False)

    def __post_init__(self) -> None:
        self.note_epochs()

    def note_epochs(self) -> None:
        self.leader_epochs = LeaderEpochs()
        for index, epoch in enumerate(self.records):
            self.leader_epochs.assign(epoch, self.log_start_offset + index)

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.records)

    def content(self) -> list[tuple[int, int]]:
        return [(self.log_start_offset + i, epoch) for i, epoch in enumerate(self.records)]


@pytest.mark.parametrize(
    ("replica", "copy", "step"),
    [
        (Log([]), Log([]), CaughtUp()),
        (Log([0, 0, 1]), Log([]), CopyFrom(0)),
        (Log([0, 0, 1]), Log([0, 0]), CopyFrom(2)),
        (Log([0, 0, 1]), Log([0, 0, 1]), CaughtUp()),
        (Log([0, 0, 2]), Log([0, 0, 1, 1]), TruncateTo(2)),
        (Log([0, 0]), Log([0, 0, 1, 1]), TruncateTo(2)),
        (Log([0]), Log([0, 0, 0]), TruncateTo(1)),
        (Log([4, 4], 7), Log([0, 0, 1]), TruncateFully(7)),
        (Log([1], 2), Log([0, 0, 1]), CaughtUp()),
        (Log([], 5), Log([]), TruncateFully(5)),
        (Log([]), Log([0, 0]), TruncateFully(0)),
        (Log([3]), Log([0, 0]), TruncateTo(0)),
        (Log([3], 2), Log([3], 3), TruncateFully(2)),
    ],
)
def test_one_step(replica: Log, copy: Log, step: Step) -> None:
    assert decide_step(replica, copy) == step


def apply(step: Step, replica: Log, copy: Log) -> None:
    match step:
        case TruncateFully(offset):
            copy.records, copy.log_start_offset = [], offset
        case TruncateTo(offset):
            del copy.records[offset - copy.log_start_offset :]
        case CopyFrom(offset):
            copy.records.append(replica.records[offset - replica.log_start_offset])
    copy.note_epochs()


def change(replica: Log, random: Random, epoch: int) -> None:
    """Append, follow another leader, delete from the start, or start over."""
    records: Sequence[int] = replica.records
    match random.randrange(4):
        case 0:
            replica.records += [epoch] * random.randint(1, 3)
        case 1:
            # A new leader has another epoch, so what is truncated never comes back.
            replica.records = [*records[: random.randint(0, len(records))], epoch]
        case 2:
            forgotten = random.randint(0, len(records))
            replica.records = list(records[forgotten:])
            replica.log_start_offset += forgotten
        case 3:
            replica.records, replica.log_start_offset = [], random.randint(0, 20)
    replica.note_epochs()


@pytest.mark.parametrize("seed", range(300))
def test_a_copy_catches_up_through_any_history(seed: int) -> None:
    random = Random(seed)
    replica, copy = Log([]), Log([])
    for epoch in range(12):
        change(replica, random, epoch)
        for _ in range(random.randint(0, 4)):
            apply(decide_step(replica, copy), replica, copy)
    for _ in range(100):
        step = decide_step(replica, copy)
        if step == CaughtUp():
            break
        apply(step, replica, copy)
    assert decide_step(replica, copy) == CaughtUp()
    held = copy.content()
    assert held[len(held) - len(replica.records) :] == replica.content()
