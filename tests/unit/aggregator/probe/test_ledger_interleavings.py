"""Seeded runs of a source, a link and a reader: exactly the planted faults are found.

Sends are acknowledged, or their outcome is unknown: then the record lands at once, behind later
ones, or never. The link copies in order, in pieces of any size, at any time. The reader starts over
at any moment.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from aggregator.probe.ledger import Fault, Ledger
from aggregator.probe.settings import ProbeSettings

SETTINGS = ProbeSettings(lost_ms=10_000)
SEEDS = range(100)
RECORDS = 40


class World:
    """A source log and its copy; both hold sequence numbers."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0.0
        self.ledger = Ledger(SETTINGS, 0.0)
        self.source: list[int] = []
        self.copy: list[int] = []
        self.altered: set[int] = set()
        """Offsets of the copy."""
        self.acknowledged: list[int] = []
        self._copied = 0
        self._read = 0
        self._landing: list[tuple[int, int]] = []
        """(number of the send behind which it lands, sequence)."""

    def send(self) -> None:
        sequence = self.ledger.begin(self.now_ms)
        outcome = self.random.choices(("sent", "lands", "late", "never"), (12, 1, 1, 1))[0]
        if outcome in ("sent", "lands"):
            self.source.append(sequence)
        if outcome == "sent" and self.random.random() < 0.3:
            self.pass_time(1_000)  # it arrives, maybe, before its delivery report
        if outcome == "sent":
            self.ledger.acknowledged(sequence)
            self.acknowledged.append(sequence)
        else:
            self.ledger.unknown(sequence)
        if outcome == "late":
            self._landing.append((sequence + self.random.randint(1, 3), sequence))
        for behind, late in list(self._landing):
            if sequence >= behind:
                self._landing.remove((behind, late))
                self.source.append(late)

    def copy_some(self, count: int | None = None) -> None:
        count = self.random.randint(0, 5) if count is None else count
        self.copy += self.source[self._copied : self._copied + count]
        self._copied = min(len(self.source), self._copied + count)

    def read_some(self, count: int | None = None) -> None:
        if self.random.random() < 0.1:
            self._read = 0  # another consumer, or a position that is gone
        count = self.random.randint(0, 8) if count is None else count
        for offset in range(self._read, min(len(self.copy), self._read + count)):
            is_intact = offset not in self.altered
            self.ledger.arrived(self.copy[offset], offset, self.now_ms, is_intact=is_intact)
            self._read = offset + 1

    def pass_time(self, most_ms: int) -> None:
        self.now_ms += self.random.randint(1, most_ms)
        self.copy_some()
        self.read_some()
        self.ledger.tick(self.now_ms)

    def run(self, records: int) -> None:
        for _ in range(records):
            self.send()
            self.pass_time(3_000)
        # What was sent last can be overtaken only by a record behind it.
        last = self.ledger.begin(self.now_ms)
        self.source.append(last)
        self.ledger.acknowledged(last)
        self.acknowledged.append(last)

    def finish(self) -> None:
        """Let every remaining record arrive."""
        self.copy_some(len(self.source))
        for _ in range(2):
            self.read_some(len(self.copy))
        self._read = 0
        self.read_some(len(self.copy))
        self.now_ms += SETTINGS.lost_ms
        self.ledger.tick(self.now_ms)

    def faults(self) -> dict[Fault, list[int]]:
        for each in self.ledger.faults.values():
            assert each.count == len(each.sequences)
        return {
            fault: list(each.sequences) for fault, each in self.ledger.faults.items() if each.count
        }


def _lose(world: World) -> dict[Fault, list[int]]:
    victim = world.random.choice(world.acknowledged[:-1])
    world.source.remove(victim)
    return {Fault.LOST: [victim]}


def _double(world: World) -> dict[Fault, list[int]]:
    victim = world.random.choice(world.acknowledged)
    at = world.source.index(victim)
    world.source.insert(world.random.randint(at + 1, len(world.source)), victim)
    return {Fault.DOUBLED: [victim]}


def _swap(world: World) -> dict[Fault, list[int]]:
    """Move a record behind the next acknowledged one."""
    index = world.random.randrange(len(world.acknowledged) - 1)
    victim, behind = world.acknowledged[index : index + 2]
    world.source.remove(victim)
    world.source.insert(world.source.index(behind) + 1, victim)
    return {Fault.OUT_OF_ORDER: [victim]}


def _alter(world: World) -> dict[Fault, list[int]]:
    victim = world.random.choice(world.acknowledged)
    world.altered.add(world.source.index(victim))
    return {Fault.ALTERED: [victim]}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_link_without_fault_is_never_accused(seed: int) -> None:
    world = World(seed)
    world.run(RECORDS)
    world.finish()
    assert world.faults() == {}
    assert world.ledger.sent == world.ledger.received == len(world.source)
    assert world.ledger.under_way == 0


@pytest.mark.parametrize("plant", [_lose, _double, _swap, _alter])
@pytest.mark.parametrize("seed", SEEDS)
def test_just_the_planted_fault_is_found(
    seed: int, plant: Callable[[World], dict[Fault, list[int]]]
) -> None:
    world = World(seed)
    # The link is stopped while the source is written, then copies the log with the fault in it.
    world.copy_some = lambda count=None: None  # type: ignore[method-assign]
    world.run(RECORDS)
    planted = plant(world)
    del world.copy_some
    while len(world.copy) < len(world.source):
        world.pass_time(500)
    world.finish()
    assert world.faults() == planted
