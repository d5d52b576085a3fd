"""Changes of security that a running cluster cannot make in one step. Pure.

A client with the new `security` reaches only restarted brokers if a listener has another protocol,
or another port. So a rolling restart would stop half-way. Moves to another inter-broker listener
are in inter_broker_moves.py.

Without an authorizer nobody can create ACLs. So one that decides at once would deny everything to
services and applications until they have rights.

A broker without ZooKeeper's user cannot change what a broker with `set_acl` creates, or what a
migration secured. So the user comes first and goes last.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from topology.deployment.deployment import Daemon, Deployment
from topology.deployment.zookeeper_access import ZooKeeperAccess, access_of_broker

_AUTHORIZER: Final = "authorizer.class.name"
_DRY_RUN: Final = "heliograph.authorizer.dry.run"


def protocol_problems(running: Mapping[str, Daemon], after: Deployment) -> list[str]:
    """Return the refused protocols, one line per cluster; `running` holds daemons by key."""
    problems = []
    for cluster in after.clusters:
        keys = [broker.daemon for broker in cluster.brokers if broker.daemon in running]
        changes = {
            change
            for key in keys
            for change in _changes(_settings(running[key]), _settings(after.daemon(key)))
        }
        # A single broker has nobody to talk to, and all of it restarts at once.
        if len(keys) > 1 and changes:
            problems.append(f"{cluster.name}: {'; '.join(sorted(changes))}")
    return problems


def port_problems(running: Mapping[str, Daemon], after: Deployment) -> list[str]:
    """Return the brokers whose listeners would move to other ports because the file has others.

    With `count` one more listener gives the ports of one broker to another one.
    """
    return [
        f"{cluster.name}: broker {broker.id} would have listener {name} at port {new[name]}, not"
        f" {old[name]}: list the brokers with their `ports` first"
        for cluster in after.clusters
        for broker in cluster.brokers
        if len(cluster.brokers) > 1 and broker.daemon in running
        for old, new in [
            (
                _ports(_settings(running[broker.daemon])),
                _ports(_settings(after.daemon(broker.daemon))),
            )
        ]
        if [*old] != [*new]
        for name in old
        if new.get(name, old[name]) != old[name]
    ]


def authorizer_problems(running: Mapping[str, Daemon], after: Deployment) -> list[str]:
    """Return the clusters whose new authorizer would enforce at once, one line each."""
    return [
        f"{cluster.name}: start its `authorizer` with `dry_run: true`, and remove that later"
        for cluster in after.clusters
        if any(
            broker.daemon in running
            and _config(running[broker.daemon]).get(_AUTHORIZER) is None
            and _enforces(_config(after.daemon(broker.daemon)))
            for broker in cluster.brokers
        )
    ]


def zookeeper_problems(running: Mapping[str, Daemon], after: Deployment) -> list[str]:
    """Return the skipped phases of ZooKeeper's user and ACLs, one line per cluster.

    A single broker restarts as a whole, so it may take its user and `set_acl` at once.
    """
    problems = []
    for cluster in after.clusters:
        keys = [broker.daemon for broker in cluster.brokers if broker.daemon in running]
        if not keys or len(cluster.brokers) == 1:
            continue
        new = access_of_broker(after.daemon(keys[0]).files)
        before = [access_of_broker(running[key].files) for key in keys]
        others = [each for each in before if each.security.user != new.security.user]
        if new.sets_acl and others:
            hint = "apply its `zookeeper_security` without `set_acl` first, on every host"
            problems.append(f"{cluster.name}: {hint}")
        elif any(each.sets_acl for each in others):
            hint = "remove `set_acl` first, then run `heliograph zookeeper unsecure`"
            problems.append(f"{cluster.name}: {hint}, and change `zookeeper_security` last")
    return problems


def changed_zookeeper_users(
    running: Mapping[str, Daemon], after: Deployment
) -> dict[str, ZooKeeperAccess]:
    """Return the new access, by cluster, where running brokers lose or change their user."""
    found = {}
    for cluster in after.clusters:
        for broker in cluster.brokers:
            if broker.daemon not in running:
                continue
            before = access_of_broker(running[broker.daemon].files)
            new = access_of_broker(after.daemon(broker.daemon).files)
            if before.security.authenticates and before.security.user != new.security.user:
                found[cluster.name] = new
    return found


def _enforces(config: Mapping[str, str]) -> bool:
    return config.get(_AUTHORIZER) is not None and config.get(_DRY_RUN, "false") != "true"


def _config(daemon: Daemon) -> Mapping[str, str]:
    config: Mapping[str, str] = _settings(daemon).get("config", {})
    return config


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    before = _protocols(old)
    for name, protocol in _protocols(new).items():
        if before.get(name, protocol) != protocol:
            yield f"listener {name} from {before[name]} to {protocol}"


def _protocols(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the protocol of each listener; settings of older versions have none."""
    return {
        each["name"]: str(each.get("security_protocol", "PLAINTEXT"))
        for each in settings.get("listeners", ())
    }


def _ports(settings: Mapping[str, Any]) -> dict[str, int]:
    return {each["name"]: int(each["port"]) for each in settings.get("listeners", ())}


def _settings(daemon: Daemon) -> Mapping[str, Any]:
    (text,) = daemon.files.values()
    settings: Mapping[str, Any] = json.loads(text)
    return settings
