"""The entries of a topology file that are valid by themselves, as the rules get them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from topology.model import Cluster, Link, ZooKeeperProcess
from topology.model.http_security import HttpSecurity
from topology.model.supervisors import Supervisors
from topology.problems import Finding, Location, key_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Valid entries by their index in the file, and the names of all entries, valid or not."""

    zookeepers: Mapping[int, ZooKeeperProcess] = field(default_factory=dict)
    clusters: Mapping[int, Cluster] = field(default_factory=dict)
    links: Mapping[int, Link] = field(default_factory=dict)
    http_security: HttpSecurity | None = field(default_factory=HttpSecurity)
    """None if it is invalid by itself."""
    supervisors: Supervisors | None = None
    """None if there is none, or if it is invalid by itself."""
    zookeeper_names: frozenset[str] | set[str] = frozenset()
    cluster_names: frozenset[str] | set[str] = frozenset()


def duplicates(claims: Iterable[tuple[Location, object]], expected: str) -> Iterator[Finding]:
    """Yield a finding for each location whose value an earlier location has."""
    first: dict[object, Location] = {}
    for location, value in claims:
        if value in first:
            yield Finding(location, f"{expected}; {value} is taken by {key_text(first[value])}")
        else:
            first[value] = location
