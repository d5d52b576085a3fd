"""Which daemons of a topology belong to this host, and which to others. Pure.

A host is an address or a name that stands in the topology file: `host` of a broker or a ZooKeeper
server, an entry of `hosts`. An aggregator or a mirror worker without one runs on the host of its
cluster's first broker.

Loopback and wildcard addresses stand for every host. So they are refused where a file names other
hosts that are not this one: two hosts would both start what belongs there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from topology.deployment.deployment import Daemon, Deployment, LinkView, Part
from topology.model.scalars import ANY_ADDRESSES, LOOPBACK_NAMES
from topology.problems import DeployError, unknown_name

EVERY_HOST: Final = LOOPBACK_NAMES | ANY_ADDRESSES


def part_here(
    deployment: Deployment, part: Part | None, is_local: Callable[[str], bool]
) -> Deployment:
    """Return the deployment with only this host's daemons; the others are in `elsewhere`.

    `part` says which daemons belong here; without it, `is_local` decides for each host name.
    Raises DeployError for a part that the file does not have, or if nothing belongs here.
    """
    hosts = hosts_of(deployment)
    if part is not None and part.datacenter is not None:
        known = dict.fromkeys(each.datacenter or "" for each in deployment.daemons)
        if part.datacenter not in known:
            raise DeployError(unknown_name("datacenter", part.datacenter, known))
        return _split(deployment, part, lambda each: each.datacenter == part.datacenter)
    if part is not None:
        assert part.host is not None
        if part.host not in hosts:
            raise DeployError(unknown_name("host", part.host, hosts))
        here = {part.host}
    else:
        here = {host for host in hosts if host in EVERY_HOST or is_local(host)}
    found = _split(deployment, part, lambda each: each.host in here)
    if found.elsewhere:
        _check_places(deployment.daemons)
    if not found.daemons and found.elsewhere:
        raise DeployError(
            f"nothing of {deployment.name} belongs to this host: no address of it is a host of"
            f" {deployment.topology_file}",
            [f"its hosts are {', '.join(hosts)}", "--host NAME says which of them this one is"],
        )
    return found


def hosts_of(deployment: Deployment) -> list[str]:
    """Return every host of the daemons, each once."""
    return list(dict.fromkeys(each.host for each in (*deployment.daemons, *deployment.elsewhere)))


def lost_hosts(before: Deployment, after: Deployment) -> list[str]:
    """Return the hosts whose daemons ran here and that addresses now place elsewhere.

    An address that is missing for a moment would stop everything that runs on it.
    """
    if before.part is not None or after.part is not None:
        return []
    moved = {each.host for each in after.elsewhere}
    return sorted({each.host for each in before.daemons} & moved)


def _check_places(daemons: Iterable[Daemon]) -> None:
    problems = [
        f"{each.label} needs the address of its host, not {each.host}"
        for each in daemons
        if each.host in EVERY_HOST
    ]
    if problems:
        raise DeployError("every host would start what is on a loopback address", problems)


def _split(
    deployment: Deployment, part: Part | None, is_here: Callable[[Daemon], bool]
) -> Deployment:
    here = tuple(each for each in deployment.daemons if is_here(each))
    keys = {each.key for each in here}
    return replace(
        deployment,
        daemons=here,
        elsewhere=tuple(each for each in deployment.daemons if each.key not in keys),
        links=tuple(_worker_here(link, keys) for link in deployment.links),
        part=part,
    )


def _worker_here(link: LinkView, keys: set[str]) -> LinkView:
    """Return the link with the worker of this host, if it has one here."""
    here = next((key for key in link.workers if key in keys), link.daemon)
    return replace(link, daemon=here)
