"""Changes of security that a running cluster cannot make in one step. Pure.

A broker with a new inter-broker protocol cannot talk to brokers with the old one. A client with the
new `security` reaches only restarted brokers. So a rolling restart would stop half-way.

Without an authorizer nobody can create ACLs. So one that decides at once would deny everything to
services and applications until they have rights.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from topology.deployment.deployment import Daemon, Deployment

_AUTHORIZER: Final = "authorizer.class.name"
_DRY_RUN: Final = "heliograph.authorizer.dry.run"


def protocol_problems(running: Mapping[str, Daemon], after: Deployment) -> list[str]:
    """Return the refused changes, one line per cluster; `running` holds daemons by key."""
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


def _enforces(config: Mapping[str, str]) -> bool:
    return config.get(_AUTHORIZER) is not None and config.get(_DRY_RUN, "false") != "true"


def _config(daemon: Daemon) -> Mapping[str, str]:
    config: Mapping[str, str] = _settings(daemon).get("config", {})
    return config


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    between = "the inter-broker listener"
    listeners = {between: _protocol(new, new.get("inter_broker_listener"))}
    before = {between: _protocol(old, old.get("inter_broker_listener"))}
    for each in new.get("listeners", ()):
        name = each["name"]
        listeners[f"listener {name}"] = each["security_protocol"]
        before[f"listener {name}"] = _protocol(old, name)
    for what, protocol in listeners.items():
        if before[what] not in (None, protocol):
            yield f"{what} from {before[what]} to {protocol}"


def _protocol(settings: Mapping[str, Any], name: str | None) -> str | None:
    """Return a listener's protocol; None without it, or if an older version wrote the settings."""
    for each in settings.get("listeners", ()):
        if each["name"] == name:
            return str(each.get("security_protocol", "PLAINTEXT"))
    return None


def _settings(daemon: Daemon) -> Mapping[str, Any]:
    (text,) = daemon.files.values()
    settings: Mapping[str, Any] = json.loads(text)
    return settings
