"""Plans which replicas move, to spread them evenly or to drain brokers. Pure.

    drain       Every replica of the drained brokers moves to another broker. No other one moves.
    rebalance   1. Replicas that crowd a rack or a host move to others, by the placement rules of
                   new partitions (local_cluster/controller/decisions/placement.py).
                2. Replicas move from the brokers with most replicas to those with fewest, if that
                   does not crowd the partition more.
                3. The order of replicas changes, so that each broker is the preferred leader of
                   equally many partitions. This copies no data.

Guarantees: a partition keeps its number of replicas. If racks and hosts allow it, the brokers'
counts finally differ by at most one, and no plan with that result moves fewer replicas. The plan
for the result of a plan is empty, so a partly executed plan continues by planning again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from local_cluster.client.model import TopicPartition
from local_cluster.controller.decisions.placement import Crowding, Site, spread


class CannotPlan(Exception):
    """There is no plan; one line per reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLayout:
    """The replicas of a partition after the running reassignments."""

    replicas: tuple[int, ...]
    size_bytes: int | None = None
    """Size of one replica; None if it is unknown."""


class Move(NamedTuple):
    """A partition's replicas before and after a move; the first one is the preferred leader."""

    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int | None

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a new replica."""
        return tuple(replica for replica in self.after if replica not in self.before)

    @property
    def copied_bytes(self) -> int | None:
        """Bytes to copy; None if the size is unknown."""
        if not self.adding:
            return 0
        return None if self.size_bytes is None else self.size_bytes * len(self.adding)


def plan_moves(
    partitions: Mapping[TopicPartition, PartitionLayout],
    sites: Sequence[Site],
    drained: frozenset[int] = frozenset(),
) -> list[Move]:
    """Return the moves, ordered by the bytes to copy.

    `sites` are the live brokers. Replicas on brokers that are down stay there, unless the broker is
    drained. Raises CannotPlan.
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
    """The planned replicas of every partition, while the plan is made."""

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

    # -- steps ------------------------------------------------------------------------------

    def evacuate(self, drained: frozenset[int]) -> None:
        """Move every replica of the drained brokers. Raises CannotPlan."""
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
        """Move replicas that crowd a rack or a host, if another place is less crowded."""
        for key, replicas in self.replicas.items():
            for _ in range(len(replicas)):
                best = self._least_crowded(key)
                if best is None:
                    break
                self._replace(key, *best)

    def level_replicas(self) -> None:
        """Move replicas from the brokers with most replicas to those with fewest."""
        while True:
            for donor, receiver in self._unequal({b: len(k) for b, k in self._held.items()}):
                key = self._movable(donor, receiver)
                if key is not None:
                    self._replace(key, donor, receiver)
                    break
            else:
                return

    def level_leaders(self) -> None:
        """Change the preferred leaders."""
        led: dict[int, set[TopicPartition]] = {broker_id: set() for broker_id in self._sites}
        for key, replicas in self.replicas.items():
            if replicas[0] in led:
                led[replicas[0]].add(key)
        while True:
            for donor, receiver in self._unequal({b: len(k) for b, k in led.items()}):
                shared = [key for key in led[donor] if receiver in self.replicas[key]]
                if shared:
                    # Choose a partition that moves anyway, if there is one.
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
        """Yield pairs in which the first has at least two more, the most unequal pair first."""
        pairs = [
            (counts[receiver] - counts[donor], donor, receiver)
            for donor in counts
            for receiver in counts
            if counts[donor] - counts[receiver] >= 2
        ]
        for _, donor, receiver in sorted(pairs):
            yield donor, receiver

    def _movable(self, donor: int, receiver: int) -> TopicPartition | None:
        """Return the best partition to move from donor to receiver, or None."""
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
        """Return the broker that gets the replica."""
        free = [each for each in self._sites if each not in self.replicas[key]]
        return min(free, key=lambda broker_id: self._cost(key, leaving, broker_id))

    def _least_crowded(self, key: TopicPartition) -> tuple[int, int] | None:
        """Return (from, to) of the move that reduces crowding most, or None."""
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
