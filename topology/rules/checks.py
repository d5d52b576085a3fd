"""Runs every rule between the entries of a topology. Pure.

Guarantees: a name, id, port or chroot that two entries claim is found, and a reference to an entry
that does not exist.
Not here: types and single values (`topology/model/`).
"""

from __future__ import annotations

from collections.abc import Iterator

from topology.problems import Finding
from topology.rules.address_rules import check_mirror_hosts, check_ports
from topology.rules.cluster_rules import check_clusters
from topology.rules.http_rules import check_http
from topology.rules.link_rules import check_links
from topology.rules.parts import Parts, duplicates
from topology.rules.supervisor_rules import check_supervisors
from topology.rules.ticket_rules import check_tickets
from topology.rules.zookeeper_rules import check_chroots, check_zookeeper_tls, check_zookeepers


def check_rules(parts: Parts) -> list[Finding]:
    """Return a finding for every broken rule."""
    return [
        *_check_names(parts),
        *check_zookeepers(parts),
        *check_clusters(parts),
        *check_chroots(parts),
        *check_zookeeper_tls(parts),
        *check_ports(parts),
        *check_mirror_hosts(parts),
        *check_http(parts),
        *check_supervisors(parts),
        *check_links(parts),
        *check_tickets(parts),
    ]


def _check_names(parts: Parts) -> Iterator[Finding]:
    yield from duplicates(
        ((("zookeepers", i, "name"), each.name) for i, each in parts.zookeepers.items()),
        "a unique ZooKeeper name",
    )
    yield from duplicates(
        ((("clusters", i, "name"), each.name) for i, each in parts.clusters.items()),
        "a unique cluster name",
    )
    yield from duplicates(
        (
            (("links", i, "name") if each.name else ("links", i), each.effective_name)
            for i, each in parts.links.items()
        ),
        "a unique link name",
    )
