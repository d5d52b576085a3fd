"""The clusters, topics and links of each naming. Pure.

The names of copies are written out here; they are not computed by the mirror's code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from mirror_maker.formats.naming import TopicNames
from mirror_maker.formats.probe import MERGED_PROBE_COPY, probe_topic_name

TOPIC: Final = "t"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPlan:
    """One link: its source, its target, and the names of its copies."""

    source: str
    target: str
    copies: Mapping[str, str]
    """Source topic -> its copy. Other topics are not selected."""
    names: TopicNames = field(default_factory=TopicNames)
    origin: str = "any"
    is_probed: bool = False
    """Whether its only topic is its probe topic, which is selected despite the patterns."""
    is_shared: bool = False
    """Whether others may write into the copies."""

    @property
    def name(self) -> str:
        return f"{self.source}-{self.target}"

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the mirror's link."""
        return {
            "name": self.name,
            "source_alias": self.source,
            "source_bootstrap": "-",
            "topics": () if self.is_probed else tuple(map(re.escape, self.copies)),
            "probe": self.is_probed,
            "names": self.names,
            "origin": self.origin,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """All clusters and links of a world."""

    links: tuple[LinkPlan, ...]
    written: Mapping[str, tuple[str, ...]]
    """Cluster -> topics that clients write."""

    @property
    def clusters(self) -> list[str]:
        return sorted({name for link in self.links for name in (link.source, link.target)})

    @property
    def targets(self) -> list[str]:
        return sorted({link.target for link in self.links})


def topology_of(naming: str, random: Random) -> Topology:
    """Return the topology of a naming; `random` decides details."""
    keep = {TOPIC: TOPIC}
    identity = TopicNames(otherwise="identity")
    match naming:
        case "prefixed":
            links = [LinkPlan(source="a", target="b", copies={TOPIC: "a.t"})]
        case "identity":
            links = [
                LinkPlan(source="a", target="b", copies=keep, names=identity, is_shared=True,
                         origin=random.choice(("any", "local")))
            ]  # fmt: skip
        case "map":
            names = TopicNames(map={TOPIC: "mapped"}, pattern="p-(.*)", to="$1-of-a")
            copies = {TOPIC: "mapped", "p-x": "x-of-a", "q": "a.q"}
            links = [LinkPlan(source="a", target="b", copies=copies, names=names)]
        case "merge":
            names = TopicNames(merge=(TOPIC,))
            links = [
                LinkPlan(source=source, target="all", copies=keep, names=names, origin="local",
                         is_shared=True)
                for source in ("a", "b", "c")[: random.choice((2, 2, 3))]
            ]  # fmt: skip
        case "probes":
            links = [
                LinkPlan(source=source, target="all", names=TopicNames(merge=(TOPIC,)),
                         copies={probe_topic_name(f"{source}-all"): MERGED_PROBE_COPY},
                         origin="local", is_probed=True, is_shared=True)
                for source in ("a", "b")
            ]  # fmt: skip
        case "ring" | "pair":
            clusters = ("a", "b", "c") if naming == "ring" else ("a", "b")
            links = [
                LinkPlan(source=source, target=target, copies=keep, names=identity,
                         origin="local", is_shared=True)
                for source, target in zip(clusters, (*clusters[1:], clusters[0]), strict=True)
            ]  # fmt: skip
        case "hops":
            # Each hop prefixes its source; topics that went round the ring are left out.
            ring = (("a", "b", "c"), ("b", "c", "a"), ("c", "a", "b"))
            links = [
                LinkPlan(source=source, target=target,
                         copies={TOPIC: f"{source}.t", f"{before}.t": f"{source}.{before}.t"})
                for source, target, before in ring
            ]  # fmt: skip
        case _:
            raise ValueError(f"no naming is called {naming!r}")
    written: dict[str, tuple[str, ...]] = {link.source: (TOPIC,) for link in links}
    if naming == "probes":
        written = {link.source: tuple(link.copies) for link in links}
    if naming == "map":
        written = {"a": (TOPIC, "p-x", "q")}
    if naming == "identity" and random.random() < 0.5:
        written["b"] = (TOPIC,)
    return Topology(links=tuple(links), written=written)
