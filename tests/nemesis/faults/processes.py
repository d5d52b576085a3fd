"""Brokers that die, hang, or are restarted as an operator does it."""

from __future__ import annotations

from typing import Final

from tests.nemesis.cluster import Cluster
from tests.nemesis.faults.fault import Fault
from tests.nemesis.faults.roles import ROLES, Role


def _kill(name: str, role: Role) -> Fault:
    async def inject(cluster: Cluster) -> None:
        await cluster.kill(*await role(cluster))

    who = "all brokers at once" if name == "all" else f"the {name}"
    return Fault(name=f"kill-{name}", title=f"kill -9 of {who}", inject=inject)


def _pause(name: str, role: Role) -> Fault:
    async def inject(cluster: Cluster) -> None:
        cluster.pause(*await role(cluster))

    who = "all brokers at once" if name == "all" else f"the {name}"
    return Fault(
        name=f"pause-{name}", title=f"SIGSTOP of {who}, longer than its session", inject=inject
    )


async def _flicker(cluster: Cluster) -> None:
    """Shorter than a session, again and again: nobody is deposed, everybody is late."""
    for _ in range(4):
        for node in cluster.nodes:
            cluster.pause(node)
            await cluster.sleep(1.0)
            cluster.resume()
            await cluster.sleep(0.2)


async def _rolling_restart(cluster: Cluster) -> None:
    """Each broker stops cleanly and starts; the next follows when all replicas are in sync."""
    for node in cluster.nodes:
        await cluster.stop(node)
        await cluster.start(node)
        await cluster.until_in_sync([cluster.watched_topic])


async def _kill_in_turn(cluster: Cluster) -> None:
    """kill -9 of each, without waiting for the others to be in sync."""
    for node in cluster.nodes:
        await cluster.kill(node)
        await cluster.sleep(1.0)
        await cluster.start(node)


FAULTS: Final = (
    *(_kill(name, role) for name, role in ROLES.items()),
    *(_pause(name, role) for name, role in ROLES.items()),
    Fault(
        name="kill-in-turn",
        title="kill -9 of one after the other, started again at once",
        inject=_kill_in_turn,
        hold_seconds=0.0,
    ),
    Fault(
        name="pause-flicker",
        title="SIGSTOP of one after the other, for a second each",
        inject=_flicker,
        hold_seconds=0.0,
    ),
    Fault(
        name="rolling-restart",
        title="a clean rolling restart",
        inject=_rolling_restart,
        hold_seconds=0.0,
    ),
)
