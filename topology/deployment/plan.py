"""The steps from the daemons that run to the daemons that the topology asks for. Pure.

Guarantees: no step touches a running daemon whose digest is unchanged. The data of a daemon that
is removed stays on disk. An edit of links reloads these links in their workers and aggregators; the
other links there go on.

Mirror workers and aggregators keep running while their clusters grow. A client needs bootstrap
addresses for its first contact only, and then follows the cluster's metadata. So a service that
knows a part of the addresses works on, and comes back after a crash. It gets the others when
something else restarts it. An address that leaves the file restarts it, as the broker behind it
goes away; if it is the source of a link, the link is reloaded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from topology.deployment.deployment import Daemon, Deployment

Action = Literal["start", "restart", "reload", "stop"]

REASONS_MAX = 8
"""Most changed settings that are listed for one daemon."""
BOOTSTRAPS: Final = frozenset({"bootstrap", "source_bootstrap", "target_bootstrap"})
"""Keys of bootstrap addresses in the settings of both services."""
_ROLES: Final = frozenset({"mirror", "aggregator"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A daemon that runs, as far as it is known."""

    label: str
    daemon: Daemon | None = None
    """As it was started, with an empty version if that is unknown; None if all of it is."""

    @staticmethod
    def of(daemon: Daemon) -> Running:
        """Return a daemon that runs as it was rendered."""
        return Running(label=daemon.label, daemon=daemon)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One action on one daemon."""

    action: Action
    key: str
    label: str
    reasons: tuple[str, ...] = ()

    def sentence(self) -> str:
        why = f" ({'; '.join(self.reasons)})" if self.reasons else ""
        return f"{self.action} {self.label}{why}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def plan(desired: Sequence[Daemon], running: Mapping[str, Running]) -> list[Step]:
    """Return the steps: stops first, then restarts and starts in the order of `desired`."""
    wanted = {daemon.key for daemon in desired}
    gone = ("no longer in the topology",)
    steps = [
        Step(action="stop", key=key, label=actual.label, reasons=gone)
        for key, actual in running.items()
        if key not in wanted
    ]
    for daemon in desired:
        actual = running.get(daemon.key)
        if actual is None:
            steps.append(Step(action="start", key=daemon.key, label=daemon.label))
        elif actual.daemon is None or actual.daemon.digest != daemon.digest:
            action: Action = "reload" if is_link_edit(actual.daemon, daemon) else "restart"
            reasons = tuple(_reasons(daemon, actual.daemon))
            steps.append(Step(action=action, key=daemon.key, label=daemon.label, reasons=reasons))
    return steps


def is_link_edit(running: Daemon | None, wanted: Daemon) -> bool:
    """Return whether a mirror worker or an aggregator differs in its links alone.

    It can reload them.
    """
    if running is None or wanted.role not in _ROLES or running.role != wanted.role:
        return False
    if replace(running, files=wanted.files).digest != wanted.digest:
        return False
    if len(wanted.files) != 1 or running.files.keys() != wanted.files.keys():
        return False
    (path,) = wanted.files
    try:
        before, after = json.loads(running.files[path]), json.loads(wanted.files[path])
    except ValueError:
        return False
    if not (isinstance(before, dict) and isinstance(after, dict) and "links" in after):
        return False
    return {**before, "links": after["links"]} == after


def _reasons(daemon: Daemon, actual: Daemon | None) -> list[str]:
    if actual is None:
        return ["settings changed"]
    changed: list[str] = []
    if daemon.version != actual.version:
        changed.append(f"version: {actual.version or 'an older one'} -> {daemon.version}")
    for path, text in daemon.files.items():
        before = actual.files.get(path)
        if before != text:
            changed += _differences(_flat(before), _flat(text))
    rest = len(changed) - REASONS_MAX
    return [*changed[:REASONS_MAX], *([f"and {rest} more"] if rest > 0 else [])] or [
        "command changed"
    ]


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            yield f"{key}: {before.get(key, 'not set')} -> {after.get(key, 'not set')}"


def _flat(text: str | None) -> dict[str, str]:
    """Return JSON settings as `a.b[0].c: value`, any other text by its `key=value` lines."""
    if text is None:
        return {}
    try:
        return dict(_leaves("", json.loads(text)))
    except ValueError:
        pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
        return {key.strip(): value.strip() for key, _, value in pairs}


def _leaves(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(f"{prefix}.{key}" if prefix else str(key), inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(f"{prefix}[{index}]", inner)
    else:
        yield prefix, json.dumps(value) if isinstance(value, bool | None) else str(value)


def with_kept_services(deployment: Deployment, running: Mapping[str, Daemon]) -> Deployment:
    """Return the deployment in which services do not restart for new brokers alone.

    `running` is by key.
    """
    daemons = tuple(kept_service(each, running.get(each.key)) for each in deployment.daemons)
    return replace(deployment, daemons=daemons)


def kept_service(daemon: Daemon, running: Daemon | None) -> Daemon:
    """Return a service as it runs if only new bootstrap addresses make the difference."""
    if running is None or daemon.role not in _ROLES or running.role != daemon.role:
        return daemon
    if (daemon.argv, daemon.version) != (running.argv, running.version):
        return daemon
    if daemon.files.keys() != running.files.keys():
        return daemon
    texts = [(running.files[path], text) for path, text in daemon.files.items()]
    if all(_is_kept("", json.loads(before), json.loads(after)) for before, after in texts):
        return replace(daemon, files=running.files)
    return daemon


def _is_kept(key: str, before: Any, after: Any) -> bool:
    """Return whether nothing but bootstrap addresses was added."""
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(
            _is_kept(name, value, after[name]) for name, value in before.items()
        )
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_is_kept, ["" for _ in before], before, after))
    if key in BOOTSTRAPS and isinstance(before, str) and isinstance(after, str):
        return {*before.split(",")} <= {*after.split(",")}
    return bool(before == after)
