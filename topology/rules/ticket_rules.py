"""Rules on Kerberos: services whose libraries have no GSSAPI, and principals per host. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Final

from topology.model import Cluster, Link
from topology.model.security import HOST_MARK, is_per_host
from topology.problems import Finding, Location
from topology.rules.parts import Parts

GSSAPI: Final = "GSSAPI"


def check_tickets(parts: Parts) -> Iterator[Finding]:
    """Yield what cannot log in by tickets, and principals that no host could have."""
    by_name = {each.name: each for each in parts.clusters.values()}
    links = [each for each in parts.links.values() if {each.source, each.target} <= by_name.keys()]
    for index, cluster in parts.clusters.items():
        here: Location = ("clusters", index)
        near = [link for link in links if cluster.name in (link.source, link.target)]
        yield from _check_probes(cluster, near, by_name, here)
        targets = [by_name[link.target] for link in near]
        yield from _check_principals(cluster, targets, here)


def _check_probes(
    cluster: Cluster, links: Iterable[Link], by_name: dict[str, Cluster], here: Location
) -> Iterator[Finding]:
    """Yield an aggregator that would probe links of a cluster by tickets."""
    own = cluster.principals.aggregator
    if own.replace_in(cluster.security).mechanism != GSSAPI:
        return
    probed = [
        link.effective_name
        for link in links
        if by_name[link.target].probes(link, by_name[link.source])
    ]
    if not probed:
        return
    names = ", ".join(probed)
    expected = (
        f"another mechanism in `principals.aggregator`, or `probe: false` in {names}: aiokafka, by"
        f" which the aggregator probes {names}, cannot log in by {GSSAPI}"
    )
    sasl = cluster.listeners[0].sasl
    if cluster.external is None and sasl is not None and set(sasl.mechanisms) == {GSSAPI}:
        expected += f"; listener {cluster.listeners[0].name} has no other mechanism yet"
    place = ("principals", "aggregator") if own.kerberos is not None else ("security",)
    yield Finding((*here, *place), expected, at_key=True)


def _check_principals(
    cluster: Cluster, targets: Iterable[Cluster], here: Location
) -> Iterator[Finding]:
    """Yield each principal with HOST_MARK where there is no host, or only an address."""
    services = cluster.principals
    for login, place, who in (
        (cluster.security.kerberos, ("security",), "commands"),
        (services.spark.kerberos, ("principals", "spark"), "Spark"),
    ):
        if login is not None and is_per_host(login.principal):
            expected = f"a principal without {HOST_MARK}, as {who} may run on any host"
            yield Finding((*here, *place, "kerberos", "principal"), expected)
    brokers = [
        [listener.advertised_host or each.host for each in cluster.broker_list]
        for listener in cluster.listeners
    ]
    for index, listener in enumerate(cluster.listeners):
        if listener.sasl is not None and listener.sasl.kerberos is not None:
            at = (*here, "listeners", index, "sasl", "kerberos", "principal")
            yield from _check_hosts(listener.sasl.kerberos.principal, brokers[index], at)
    between = cluster.listeners.index(cluster.inter_broker_listener)
    mirrors = [host for target in targets for host in target.mirror_hosts]
    aggregators = [
        target.host_of(target.aggregator) for target in targets if target.aggregator is not None
    ]
    for login, hosts, place in (
        (cluster.inter_broker_security.kerberos, brokers[between], ("inter_broker_security",)),
        (services.mirror.kerberos, mirrors, ("principals", "mirror")),
        (services.aggregator.kerberos, aggregators, ("principals", "aggregator")),
    ):
        if login is not None:
            at = (*here, *place, "kerberos", "principal")
            yield from _check_hosts(login.principal, hosts, at)


def _check_hosts(principal: str | None, hosts: Iterable[str], here: Location) -> Iterator[Finding]:
    if principal is None or not is_per_host(principal):
        return
    addresses = [host for host in dict.fromkeys(hosts) if _is_address(host)]
    if addresses:
        expected = f"host names in place of {', '.join(addresses)}, which {HOST_MARK} stands for"
        yield Finding(here, expected)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
