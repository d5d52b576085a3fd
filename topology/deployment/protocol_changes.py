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
from typing import Any

from local_cluster.controller.member.registered_access import authorizer_state
from topology.deployment.deployment import Daemon, Deployment
from topology.deployment.zookeeper_access import ZooKeeperAccess, access_of_broker


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
    problems = []
    for cluster in after.clusters:
        for broker in cluster.brokers:
            if len(cluster.brokers) == 1 or broker.daemon not in running:
                continue
            old = _ports(_settings(running[broker.daemon]))
            new = _ports(_settings(after.daemon(broker.daemon)))
            if [*old] == [*new]:
                continue
            problems += [
                f"{cluster.name}: broker {broker.id} would have listener {name} at port"
                f" {new[name]}, not {port}: list the brokers with their `ports` first"
                for name, port in old.items()
                if new.get(name, port) != port
            ]
    return problems


def authorizer_problems(running: Mapping[str, Daemon], after: Deployment) -> list[str]:
    """Return the clusters whose new authorizer would enforce at once, one line each."""
    return [
        f"{cluster.name}: start its `authorizer` with `dry_run: true`, and remove that later"
        for cluster in after.clusters
        if any(
            broker.daemon in running
            and authorizer_state(_config(running[broker.daemon])) == "absent"
            and authorizer_state(_config(after.daemon(broker.daemon))) == "enforcing"
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
