"""Which processes a name means, and which levels a command line asks for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from local_cluster.log_levels import checked_level
from topology.admin.arguments import parse_pairs
from topology.problems import unknown_name

if TYPE_CHECKING:
    from topology.deployment.deployment import Daemon, Deployment

ROLES: Final = frozenset({"mirror", "aggregator"})
"""Roles of daemons whose HTTP has loggers. Levels of brokers are configs of Kafka."""


def chosen_processes(deployment: Deployment, name: str | None) -> list[Daemon]:
    """Return the mirror workers and aggregators that a name means, of all hosts.

    It is a process as `status` names it, a link (every worker that shares it), or a cluster: the
    workers of the links into it, and its aggregator. None means all of this host. Raises
    ValueError.
    """
    if name is None:
        return [each for each in deployment.daemons if each.role in ROLES]
    everywhere = (*deployment.daemons, *deployment.elsewhere)
    meant = _keys_by_name(deployment, everywhere)
    if name in meant:
        return [each for each in everywhere if each.key in meant[name]]
    for cluster in deployment.clusters:
        for broker in cluster.brokers:
            if broker.daemon == name:
                raise ValueError(
                    f"{name} is a broker: `heliograph config set broker-logger {broker.id}"
                    f" LOGGER=LEVEL -c {cluster.name}` changes its levels"
                )
    raise ValueError(unknown_name("process, link or cluster", name, meant))


def _keys_by_name(deployment: Deployment, everywhere: Iterable[Daemon]) -> dict[str, set[str]]:
    """Return the keys of processes by each name that means them; a process is its own name."""
    found: dict[str, set[str]] = {}
    for link in deployment.links:
        workers = set(link.every_worker)
        for name in (link.name, link.target):
            found[name] = found.get(name, set()) | workers
    for cluster in deployment.clusters:
        if cluster.aggregator is not None:
            found[cluster.name] = found.get(cluster.name, set()) | {cluster.aggregator}
    return found | {each.key: {each.key} for each in everywhere if each.role in ROLES}


def wanted_levels(assigned: Sequence[str], reset: Sequence[str]) -> dict[str, str | None]:
    """Return the level by logger of texts such as `mirror_maker=DEBUG`; None resets the logger.

    Raises ValueError.
    """
    wanted: dict[str, str | None] = {
        name: checked_level(level) for name, level in parse_pairs(assigned, "argument").items()
    }
    for name in reset:
        if name in wanted:
            raise ValueError(f"{name!r} is changed in two ways; name it once")
        wanted[name] = None
    return wanted
