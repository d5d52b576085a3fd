"""What every link between two endpoints does: passes, delays or loses. Pure.

An endpoint is a broker ("1", "2", "3"), all clients ("client") or ZooKeeper ("zookeeper"). A link
has a direction: `("1", "2")` is what broker 1 sends to broker 2, be it requests or answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

CLIENT: Final = "client"
ZOOKEEPER: Final = "zookeeper"


class Link(NamedTuple):
    """One direction between two endpoints."""

    sender: str
    receiver: str

    @property
    def back(self) -> Link:
        return Link(self.receiver, self.sender)


class Route(NamedTuple):
    """A listening port of the proxy, and whom it leads to."""

    listen_port: int
    target_port: int
    source: str
    """Who connects; "" where the connecting process tells (`Rules.pids`)."""
    target: str


@dataclass(frozen=True)
class Rules:
    """What the proxy does to traffic; a link that is not named passes at once."""

    cut: frozenset[Link] = frozenset()
    delay_ms: Mapping[Link, int] = field(default_factory=dict)
    pids: Mapping[str, int] = field(default_factory=dict)
    """Endpoint -> process id, to tell brokers apart that connect to the same port."""

    def passes(self, link: Link) -> bool:
        return link not in self.cut

    def can_connect(self, link: Link) -> bool:
        """A handshake needs both directions."""
        return self.passes(link) and self.passes(link.back)

    def dump(self) -> str:
        """One line of JSON."""
        return json.dumps(
            {
                "cut": sorted(self.cut),
                "delay_ms": [[*link, delay] for link, delay in sorted(self.delay_ms.items())],
                "pids": dict(self.pids),
            }
        )


def load_rules(line: str) -> Rules:
    """What `Rules.dump` wrote."""
    document = json.loads(line)
    return Rules(
        frozenset(Link(*pair) for pair in document["cut"]),
        {Link(sender, receiver): delay for sender, receiver, delay in document["delay_ms"]},
        document["pids"],
    )


def both_ways(pairs: Iterable[tuple[str, str]]) -> frozenset[Link]:
    """The links between each pair, in both directions."""
    links = {Link(*pair) for pair in pairs}
    return frozenset(links | {link.back for link in links})


def isolated(node: str, others: Iterable[str]) -> frozenset[Link]:
    """Everything between one endpoint and the others."""
    return both_ways((node, other) for other in others if other != node)
