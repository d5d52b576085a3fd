"""Which processes of a host restart with the wanted version, and what must be well before. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from topology.deployment.deployment import Daemon, Deployment
from topology.operate.restart_stages import PartitionState, kept_replicas, out_of_sync

LINK_FAILED: Final = "failed"
PEERS_MISSING: Final = ("not_started", "unreachable")
REASONS_MAX: Final = 8
"""Most reasons that are listed."""


def to_restart(deployment: Deployment, running: Mapping[str, Daemon]) -> list[str]:
    """Return the keys of the daemons that run with another version or other settings, in order.

    The order is that of the deployment: ZooKeepers, brokers, mirror workers, aggregators.
    """
    return [
        daemon.key
        for daemon in deployment.daemons
        if daemon.key in running and running[daemon.key].digest != daemon.digest
    ]


def held_back(
    deployment: Deployment, running: Mapping[str, Daemon], later: Collection[str]
) -> Deployment:
    """Return the deployment with the daemons of `later` as they run now."""
    daemons = tuple(running[each.key] if each.key in later else each for each in deployment.daemons)
    return replace(deployment, daemons=daemons)


def trouble(
    deployment: Deployment,
    status: Mapping[str, Any],
    partitions: Mapping[str, Sequence[PartitionState] | None],
) -> list[str]:
    """Return why no process may restart now, one line each; empty if all is well.

    `status` is the status document of this host with liveness. `partitions` are those of each own
    cluster by name, None if it does not respond. Paused and degraded links are no trouble: they may
    wait for an operator, and perhaps for the wanted version.
    """
    if status["supervisor"] is None:
        return ["the supervisor does not answer"]
    found = [
        f"{each['label']}: {each['state']}"
        for each in status["daemons"]
        if each["state"] != "running"
    ]
    found += [
        f"{each['label']} on {each['host']}: {each['state'].replace('_', ' ')}"
        for each in status["elsewhere"]
        if each["state"] in PEERS_MISSING
    ]
    for name, listed in partitions.items():
        if listed is None:
            found.append(f"{name}: its controller does not say which replicas are in sync")
            continue
        kept = kept_replicas(listed, deployment.cluster(name).brokers)
        found += [f"{name}: {each}" for each in out_of_sync(kept)]
    found += [
        f"link {each['name']} has failed" + (f": {each['reason']}" if each["reason"] else "")
        for each in status["links"]
        if each["state"] == LINK_FAILED
    ]
    return found


def shortened(reasons: Sequence[str]) -> list[str]:
    """Return at most `REASONS_MAX` reasons, and how many more there are."""
    more = len(reasons) - REASONS_MAX
    return [*reasons[:REASONS_MAX], *([f"and {more} more"] if more > 0 else [])]
