"""Which replicas move, so that every broker holds as many as the others, or one holds none. Pure.

    drain       every replica of the brokers that leave goes to another one; nothing else moves
    rebalance   1. replicas that are crowded in a rack or on a host go to others, as placement of
                   new partitions has it (local_cluster/controller/decisions/placement.py)
                2. from the brokers that hold most to those that hold least, never so that a
                   partition is more crowded by it
                3. the order of replicas changes, so that as many prefer one leader as another;
                   nothing is copied for that

Guarantees: the number of replicas of a partition stays; where racks and hosts leave the choice,
brokers end with counts that differ by at most one, and no plan with that end moves fewer. What is
planned for the outcome of a plan is nothing: a plan that was carried out in part is gone on with by
planning again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from local_cluster.client.model import TopicPartition
from local_cluster.controller.decisions.placement import Crowding, Site, spread


class CannotPlan(Exception):
    """What is asked for cannot be; one line per reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLayout:
    """Where the replicas of a partition are, or will be when what is under way is done."""

    replicas: tuple[int, ...]
    size_bytes: int | None = None
    """Of one replica; None where nobody says."""


class Move(NamedTuple):
    """A partition's replicas before and after; the first is the preferred leader."""

    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int | None

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that copy the partition."""
        return tuple(replica for replica in self.after if replica not in self.before)

    @property
    def copied_bytes(self) -> int | None:
        """What is copied; None where the size is not known."""
        if not self.adding:
            return 0
        return None if self.size_bytes is None else self.size_bytes * len(self.adding)


def plan_moves(
    partitions: Mapping[TopicPartition, PartitionLayout],
    sites: Sequence[Site],
    drained: frozenset[int] = frozenset(),
) -> list[Move]:
    """The moves, those that copy least first.

    `sites` are the live brokers. Replicas on brokers that are away stay where they are, unless
    these are drained. Raises CannotPlan.
    """
    stay = [site for site in sites if site.broker_id not in drained]
    draft = _Draft(partitions, stay)
    if drained:
        draft.evacuate(drained)
    else:
        draft.spread_out()
        draft.level_replicas()
        draft.level_leaders()
    moves = [
        Move(key, layout.replicas, tuple(draft.replicas[key]), layout.size_bytes)
        for key, layout in partitions.items()
        if tuple(draft.replicas[key]) != layout.replicas
    ]
    return sorted(moves, key=lambda move: (move.copied_bytes or 0, move.partition))


class _Draft:
    """Replicas as they will be, while they are being planned."""

    def __init__(
        self, partitions: Mapping[TopicPartition, PartitionLayout], sites: Sequence[Site]
    ) -> None:
        self.replicas = {key: list(layout.replicas) for key, layout in sorted(partitions.items())}
        self._layouts = partitions
        self._sites = {site.broker_id: site for site in sites}
        self._held: dict[int, set[TopicPartition]] = {site.broker_id: set() for site in sites}
        self._of_topic: Counter[tuple[str, int]] = Counter()
        for key, replicas in self.replicas.items():
            for replica in replicas:
                self._of_topic[key.topic, replica] += 1
                if replica in self._held:
                    self._held[replica].add(key)

    # -- the three things that are done -----------------------------------------------------

    def evacuate(self, drained: frozenset[int]) -> None:
        """Move what the drained brokers hold. Raises CannotPlan."""
        short = [
            f"{key} has {len(replicas)} replicas, and {len(self._sites)} brokers stay"
            for key, replicas in self.replicas.items()
            if len(replicas) > len(self._sites) and not drained.isdisjoint(replicas)
        ]
        if short:
            raise CannotPlan("\n".join(short))
        for key, replicas in self.replicas.items():
            for replica in [each for each in replicas if each in drained]:
                self._replace(key, replica, self._best(key, replica))

    def spread_out(self) -> None:
        """Move replicas that are crowded and need not be."""
        for key, replicas in self.replicas.items():
            for _ in range(len(replicas)):
                best = self._least_crowded(key)
                if best is None:
                    break
                self._replace(key, *best)

    def level_replicas(self) -> None:
        """Move replicas from the brokers that hold most to those that hold least."""
        while True:
            for donor, receiver in self._unequal({b: len(k) for b, k in self._held.items()}):
                key = self._movable(donor, receiver)
                if key is not None:
                    self._replace(key, donor, receiver)
                    break
            else:
                return

    def level_leaders(self) -> None:
        """Change who is first among the replicas."""
        led: dict[int, set[TopicPartition]] = {broker_id: set() for broker_id in self._sites}
        for key, replicas in self.replicas.items():
            if replicas[0] in led:
                led[replicas[0]].add(key)
        while True:
            for donor, receiver in self._unequal({b: len(k) for b, k in led.items()}):
                shared = [key for key in led[donor] if receiver in self.replicas[key]]
                if shared:
                    # One that moves anyway, where there is one.
                    key = min(shared, key=lambda key: (not self._is_moved(key), key))
                    replicas = self.replicas[key]
                    replicas.remove(receiver)
                    replicas.insert(0, receiver)
                    led[donor].discard(key)
                    led[receiver].add(key)
                    break
            else:
                return

    # -- choices ----------------------------------------------------------------------------

    def _unequal(self, counts: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """Pairs of which the first has at least two more, the most unequal first."""
        pairs = [
            (counts[receiver] - counts[donor], donor, receiver)
            for donor in counts
            for receiver in counts
            if counts[donor] - counts[receiver] >= 2
        ]
        for _, donor, receiver in sorted(pairs):
            yield donor, receiver

    def _movable(self, donor: int, receiver: int) -> TopicPartition | None:
        """The partition that goes from one broker to the other best, None where none can."""
        best: tuple[tuple[bool, int, int, TopicPartition], TopicPartition] | None = None
        for key in self._held[donor] - self._held[receiver]:
            if self._spread_with(key, donor, receiver) > self._spread_with(key, donor, donor):
                continue
            lead = self._of_topic[key.topic, donor] - self._of_topic[key.topic, receiver]
            is_original = donor in self._layouts[key].replicas
            cost = (is_original, -lead, self._layouts[key].size_bytes or 0, key)
            if best is None or cost < best[0]:
                best = (cost, key)
        return None if best is None else best[1]

    def _best(self, key: TopicPartition, leaving: int) -> int:
        """The broker that takes a replica over."""
        free = [each for each in self._sites if each not in self.replicas[key]]
        return min(free, key=lambda broker_id: self._cost(key, leaving, broker_id))

    def _least_crowded(self, key: TopicPartition) -> tuple[int, int] | None:
        """(from, to) of the move that helps most, None where none helps."""
        known = [replica for replica in self.replicas[key] if replica in self._sites]
        if not known:
            return None
        now = self._spread_with(key, known[0], known[0])
        free = [each for each in self._sites if each not in self.replicas[key]]
        costs = [
            (self._cost(key, leaving, coming), leaving, coming)
            for leaving in known
            for coming in free
        ]
        if not costs:
            return None
        cost, leaving, coming = min(costs)
        return (leaving, coming) if cost[0] < now else None

    def _cost(
        self, key: TopicPartition, leaving: int, coming: int
    ) -> tuple[Crowding, int, int, int]:
        return (
            self._spread_with(key, leaving, coming),
            self._of_topic[key.topic, coming],
            len(self._held[coming]),
            coming,
        )

    def _spread_with(self, key: TopicPartition, leaving: int, coming: int) -> Crowding:
        ids = [coming if each == leaving else each for each in self.replicas[key]]
        return spread([self._sites[each] for each in ids if each in self._sites])

    def _is_moved(self, key: TopicPartition) -> bool:
        return tuple(self.replicas[key]) != self._layouts[key].replicas

    def _replace(self, key: TopicPartition, leaving: int, coming: int) -> None:
        replicas = self.replicas[key]
        replicas[replicas.index(leaving)] = coming
        for replica, step in ((leaving, -1), (coming, 1)):
            self._of_topic[key.topic, replica] += step
        if leaving in self._held:
            self._held[leaving].discard(key)
        self._held[coming].add(key)
