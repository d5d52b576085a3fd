"""Steps in which brokers of a running cluster would lock each other, or services, out. Pure.

Brokers restart one after the other, on one host after the other. So each broker with the next
settings must reach and accept each broker with other ones, and be reached and accepted by it. From
this follows every phase of a move to another inter-broker listener:

    added      nobody connects to a listener that some broker does not have
    accepted   nobody connects as somebody whom some broker does not accept
    trusted    the former listener is trusted while some broker uses it
    closed     a listener stays while some broker uses it
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final

from pydantic import TypeAdapter, ValidationError

from local_cluster.controller.member.registered_access import RegisteredAccess, access_of
from local_cluster.settings import BrokerSettings
from topology.deployment.deployment import ClusterView, Daemon, Deployment

_SETTINGS: Final = TypeAdapter(BrokerSettings)
_KEYS: Final = {each.name for each in fields(BrokerSettings)}
STEP: Final = "in a step of its own, on every host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What brokers of one cluster do next on this host."""

    cluster: ClusterView
    after: RegisteredAccess
    restarting: frozenset[int]
    """Ids of the brokers here that start with other access, or were not running."""
    running: Mapping[int, RegisteredAccess | None]
    """Access of the brokers that run here; None if another version wrote it in an unknown way."""
    elsewhere: frozenset[int]
    """Ids of the brokers of other hosts."""

    @property
    def takes_away(self) -> bool:
        """Whether a broker here moves, or ends what others may rely on."""
        return any(
            each is None
            or each.inter_broker_listener != self.after.inter_broker_listener
            or not {*each.protocols} <= {*self.after.protocols}
            or not {*each.trusted_listeners} <= {*self.after.trusted_listeners}
            or not {*each.broker_principals} <= {*self.after.broker_principals}
            for each in self.running.values()
        )


def moves_of(running: Mapping[str, Daemon], after: Deployment) -> list[Move]:
    """Return the moves of clusters with several brokers; `running` holds daemons by key."""
    here = {each.key for each in after.daemons}
    found = []
    for cluster in after.clusters:
        own = [each for each in cluster.brokers if each.daemon in here]
        if not own or len(cluster.brokers) == 1:
            continue
        next_access = access_of_daemon(after.daemon(own[0].daemon))
        assert next_access is not None, "this version has just written these settings"
        before = {
            each.id: access_of_daemon(running[each.daemon])
            for each in own
            if each.daemon in running
        }
        restarting = {each.id for each in own if before.get(each.id) != next_access}
        if restarting:
            found.append(
                Move(
                    cluster=cluster,
                    after=next_access,
                    restarting=frozenset(restarting),
                    running=before,
                    elsewhere=frozenset(each.id for each in cluster.brokers)
                    - {each.id for each in own},
                )
            )
    return found


def access_of_daemon(daemon: Daemon) -> RegisteredAccess | None:
    """Return the access of a broker; None if a newer version wrote settings that are unknown."""
    (text,) = daemon.files.values()
    known = {name: value for name, value in json.loads(text).items() if name in _KEYS}
    try:
        return access_of(_SETTINGS.validate_json(json.dumps(known)))
    except ValidationError:
        return None


def move_problems(move: Move, registered: Mapping[int, RegisteredAccess | None]) -> list[str]:
    """Return why a move has to wait, one line per reason.

    `registered` are the brokers of the cluster in ZooKeeper; None for one whose version does not
    say its access. Those that run here count by their settings.
    """
    # What does not run here may still be registered, until its session ends.
    others = {each: registered[each] for each in {*registered} - move.restarting}
    others |= move.running
    problems: dict[str, list[int]] = {}
    for broker_id, old in sorted(others.items()):
        alone = {broker_id} == move.restarting
        if old is None:
            reasons = _unknown(move, "runs a version that does not say what it accepts")
        else:
            reasons = [*_closes(old, move.after)]
            if not alone:
                reasons += [*_lockouts(old, move.after)]
        for reason in reasons:
            problems.setdefault(reason, []).append(broker_id)
    for broker_id in sorted(move.elsewhere - {*others}):
        for reason in _unknown(move, "is not registered, so nobody knows what it uses"):
            problems.setdefault(reason, []).append(broker_id)
    return [
        f"{move.cluster.name}: broker {', '.join(map(str, ids))} {reason}"
        for reason, ids in problems.items()
    ]


def _unknown(move: Move, what: str) -> list[str]:
    hint = "start it with this version, or take it out of the file"
    return [f"{what}: {hint}"] if move.takes_away else []


def _lockouts(old: RegisteredAccess, new: RegisteredAccess) -> Iterator[str]:
    """Yield why brokers with both settings could not work side by side."""
    used, wanted = old.inter_broker_listener, new.inter_broker_listener
    if used not in new.protocols:
        yield f"uses listener {used} between brokers: keep it until every broker has moved"
    elif not _accepts(new, old):
        hint = (
            f"set `former_inter_broker: true` at listener {used}"
            if old.inter_broker_protocol == "PLAINTEXT"
            else f"keep {_name(old)} in `broker_principals`"
        )
        yield f"uses listener {used} between brokers: {hint} until every broker has moved"
    if wanted not in old.protocols:
        yield f"has no listener {wanted}: add it {STEP}, before brokers use it"
    elif not _accepts(old, new):
        hint = (
            f"set `former_inter_broker: true` at listener {wanted}"
            if new.inter_broker_protocol == "PLAINTEXT"
            else f"add {_name(new)} to `broker_principals`"
        )
        yield f"does not accept brokers on listener {wanted} yet: {hint} {STEP}"
    if new.authorizer == "enforcing" and old.authorizer == "absent":
        yield f"has no authorizer: start it with `dry_run: true` {STEP}"


def _closes(old: RegisteredAccess, new: RegisteredAccess) -> Iterator[str]:
    """Yield why services would lose the brokers: they use the first listener."""
    first, wanted = next(iter(old.protocols)), next(iter(new.protocols))
    if first not in new.protocols:
        yield (
            f"has services on listener {first}, the first one: put another listener first {STEP},"
            " and close it later"
        )
    if wanted not in old.protocols:
        yield (
            f"has no listener {wanted}, which services would use, as it is the first one: add it"
            f" behind the others {STEP}"
        )


def _accepts(server: RegisteredAccess, client: RegisteredAccess) -> bool:
    """Return whether a broker counts another one as a broker, on the listener of that one."""
    listener = client.inter_broker_listener
    protocol = server.protocols.get(listener)
    if protocol != client.inter_broker_protocol:
        return False
    if protocol == "PLAINTEXT":
        return listener in server.trusted_listeners
    if client.principal is not None:
        return client.principal in server.broker_principals
    # Only the server maps a certificate or a token to a principal.
    return not {*client.broker_principals}.isdisjoint(server.broker_principals)


def _name(access: RegisteredAccess) -> str:
    return access.principal or " or ".join(access.broker_principals)
