"""The judge of a simulated group. It knows what members were told, and nothing of the brokers.

    invariant                                                              checked
    a partition is not given to a member while another one owns it,
      unless the other one was fenced                                      at every change
    committed positions never go back                                      at commits and reads
    each request gets a response                                           after healing (member.py)
    each partition has one owner after a change                            after healing (slots.py)

A member owns a partition from the response that gives it until the member gives it up. A member may
be fenced when the coordinator has not heard of it for its session timeout: it does not know that
then. So its ownership is certain for a session timeout after it *sent* its last request that got a
response without an error. A static member is fenced as well when a successor has joined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tests.sim.cluster.names import Anomaly

NEVER = float("-inf")


@dataclass(eq=False)
class Owner:
    """One process of a member, as the judge sees it."""

    name: str
    instance_id: str | None
    owned: frozenset[int] = frozenset()
    heard_at: float = NEVER
    """When it sent the last request that its coordinator accepted, in virtual seconds."""
    is_fenced: bool = False
    """Another process with its instance id has joined."""


@dataclass
class GroupJudge:
    """What the members of one group were told."""

    group: str
    session_seconds: float
    now: Callable[[], float]
    owners: list[Owner] = field(default_factory=list)
    committed: dict[int, int] = field(default_factory=dict)
    """The highest acknowledged position by partition."""
    commits: int = 0
    handovers: int = 0
    """How often a partition was given to a member."""

    def add(self, name: str, instance_id: str | None) -> Owner:
        """Know a process that starts."""
        owner = Owner(name, instance_id)
        self.owners.append(owner)
        return owner

    def remove(self, owner: Owner) -> None:
        """Forget a process that has ended: it owns nothing."""
        self.owners.remove(owner)

    def heard(self, owner: Owner, sent_at: float, *, joins: bool) -> None:
        """Note an accepted request; `joins`: that of a new member. Raises Anomaly."""
        owner.heard_at = max(owner.heard_at, sent_at)
        if joins and owner.instance_id is not None:
            for other in self.owners:
                if other.instance_id == owner.instance_id:
                    other.is_fenced = other is not owner
        self._check(owner, owner.owned)

    def owns(self, owner: Owner, partitions: Collection[int]) -> None:
        """Note all that a member owns from here on. Raises Anomaly."""
        gained = frozenset(partitions) - owner.owned
        owner.owned = frozenset(partitions)
        self.handovers += len(gained)
        self._check(owner, gained)

    def acknowledged(self, partition: int, position: int, known: int, owner: Owner) -> None:
        """Check a commit; `known`: the highest position when it was sent. Raises Anomaly."""
        self.commits += 1
        if position < known:
            raise Anomaly(
                f"{self.group}-{partition}: {owner.name} committed {position} after {known}"
            )
        self.committed[partition] = max(position, self.committed.get(partition, 0))

    def read(self, partition: int, position: int, known: int, owner: Owner) -> None:
        """Check a read position; `known`: the highest when the request was sent."""
        if position < known:
            raise Anomaly(
                f"{self.group}-{partition}: {known} was committed, {owner.name} read {position}"
            )

    def _is_certain(self, owner: Owner) -> bool:
        return not owner.is_fenced and self.now() < owner.heard_at + self.session_seconds

    def _check(self, owner: Owner, partitions: Collection[int]) -> None:
        if not self._is_certain(owner):
            return
        for other in self.owners:
            twice = other.owned & frozenset(partitions)
            if other is not owner and twice and self._is_certain(other):
                raise Anomaly(
                    f"{self.group}: {owner.name} and {other.name} both own {sorted(twice)}"
                )
