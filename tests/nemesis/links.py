"""What every link between two endpoints does: passes, delays, loses packets or everything. Pure.

An endpoint is a broker ("1", "2", "3"), all clients ("client") or ZooKeeper ("zookeeper"). A link
has a direction: `("1", "2")` is what broker 1 sends to broker 2, be it requests or answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

CLIENT: Final = "client"
ZOOKEEPER: Final = "zookeeper"
PACKET_BYTES: Final = 1_448
"""What a packet of Ethernet's usual size carries of a TCP stream."""
RETRANSMISSION_MS_MIN: Final = 200
"""And a round trip: then what is lost with nothing behind it is sent again (Linux' TCP_RTO_MIN)."""
DUPLICATES: Final = 3
"""So many packets that arrive behind a lost one have it sent again at once (RFC 5681, 3.2)."""


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
    loss: Mapping[Link, float] = field(default_factory=dict)
    """Share of the packets of a link that are lost, below 1."""
    pids: Mapping[str, int] = field(default_factory=dict)
    """Endpoint -> process id, to tell brokers apart that connect to the same port."""

    def passes(self, link: Link) -> bool:
        return link not in self.cut

    def can_connect(self, link: Link) -> bool:
        """A handshake needs both directions."""
        return self.passes(link) and self.passes(link.back)

    def arrives_after_ms(self, link: Link, size_bytes: int, chance: Callable[[], float]) -> int:
        """How long bytes that are sent at once take. TCP sends again what is lost, and gives what
        came behind it to nobody before. `chance` is uniform in [0, 1)."""
        share = self.loss.get(link, 0.0)
        round_trip_ms = self.delay_ms.get(link, 0) + self.delay_ms.get(link.back, 0)
        packets = -(-size_bytes // PACKET_BYTES) if share else 0
        latest_ms = 0
        for behind in reversed(range(packets)):
            late_ms, timeout_ms = 0, RETRANSMISSION_MS_MIN + round_trip_ms
            is_told = behind >= DUPLICATES
            while chance() < share:
                late_ms += round_trip_ms if is_told else timeout_ms
                timeout_ms *= 1 if is_told else 2
                is_told = False
            latest_ms = max(latest_ms, late_ms)
        return self.delay_ms.get(link, 0) + latest_ms

    def dump(self) -> str:
        """One line of JSON."""
        return json.dumps(
            {
                "cut": sorted(self.cut),
                "delay_ms": [[*link, delay] for link, delay in sorted(self.delay_ms.items())],
                "loss": [[*link, share] for link, share in sorted(self.loss.items())],
                "pids": dict(self.pids),
            }
        )


def load_rules(line: str) -> Rules:
    """What `Rules.dump` wrote."""
    document = json.loads(line)
    return Rules(
        frozenset(Link(*pair) for pair in document["cut"]),
        {Link(sender, receiver): delay for sender, receiver, delay in document["delay_ms"]},
        {Link(sender, receiver): share for sender, receiver, share in document["loss"]},
        document["pids"],
    )


def both_ways(pairs: Iterable[tuple[str, str]]) -> frozenset[Link]:
    """The links between each pair, in both directions."""
    links = {Link(*pair) for pair in pairs}
    return frozenset(links | {link.back for link in links})


def isolated(node: str, others: Iterable[str]) -> frozenset[Link]:
    """Everything between one endpoint and the others."""
    return both_ways((node, other) for other in others if other != node)
