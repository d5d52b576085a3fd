"""The ensembles of a deployment, and what an edited file may change in them.

The key of a node is `zookeeper-NAME` if it is the only one, else `zookeeper-NAME.NUMBER`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from topology.deployment.deployment import Daemon, Deployment
from topology.deployment.plan import Step


class Ensemble(NamedTuple):
    """The nodes of a ZooKeeper of the file, in order."""

    name: str
    nodes: tuple[Daemon, ...]

    @property
    def members(self) -> dict[int, str]:
        """Addresses of each node by number."""
        lines = (each.member.partition("=") for each in self.nodes)
        return {int(name.removeprefix("server.")): text for name, _, text in lines if text}


class Growth(NamedTuple):
    """An ensemble of which the edited file has more nodes."""

    before: Ensemble
    after: Ensemble

    def sentence(self) -> str:
        count = len(self.before.nodes)
        return f"ZooKeeper {self.after.name} grows from {count} to {len(self.after.nodes)} nodes"


class Unfinished(NamedTuple):
    """An ensemble whose members are not yet those of the file."""

    name: str
    sentence: str
    """ZooKeeper main grows from 1 to 3 nodes."""
    reasons: tuple[str, ...]
    needs_other_hosts: bool = False
    """Whether it waits for nodes of other hosts only."""

    def lines(self) -> list[str]:
        return [f"{self.sentence}: {each}" for each in self.reasons] or [self.sentence]


def ensembles_of(deployment: Deployment) -> dict[str, Ensemble]:
    """Return the embedded ZooKeepers by name, with their nodes on all hosts."""
    nodes: dict[str, dict[int, Daemon]] = {}
    for daemon in (*deployment.daemons, *deployment.elsewhere):
        if daemon.role == "zookeeper":
            name, number = _place(daemon)
            nodes.setdefault(name, {})[number] = daemon
    return {
        name: Ensemble(name, tuple(each for _, each in sorted(found.items())))
        for name, found in nodes.items()
    }


def growths(before: Deployment | None, after: Deployment) -> list[Growth]:
    """Return the ensembles that grow."""
    if before is None:
        return []
    former = ensembles_of(before)
    return [
        Growth(former[name], each)
        for name, each in ensembles_of(after).items()
        if name in former and len(each.nodes) > len(former[name].nodes)
    ]


def ensemble_problems(before: Deployment | None, after: Deployment) -> list[str]:
    """Return what the edited file changes in an ensemble and cannot, one line each."""
    if before is None:
        return []
    wanted = ensembles_of(after)
    return [
        problem
        for name, former in ensembles_of(before).items()
        if name in wanted
        for problem in _problems(former, wanted[name], {each.key for each in before.daemons}, after)
    ]


def _problems(
    former: Ensemble, wanted: Ensemble, were_here: set[str], after: Deployment
) -> Iterator[str]:
    count = len(former.nodes)
    if len(wanted.nodes) < count:
        yield (
            f"ZooKeeper {former.name} has {count} nodes, and the file has {len(wanted.nodes)}:"
            " an ensemble does not shrink"
        )
        return
    here = {each.key for each in after.daemons}
    for number, (old, new) in enumerate(zip(former.nodes, wanted.nodes, strict=False), 1):
        leaves = old.key in were_here and new.key not in here
        grows = len(wanted.nodes) > count
        if leaves and (grows or any(each.key in here for each in wanted.nodes)):
            yield (
                f"node {number} of ZooKeeper {former.name} runs on this host, and the file has it"
                f" on {new.host}: hosts keep their places, and new ones follow them"
            )
        elif grows and old.key not in were_here and old.host != new.host:
            yield (
                f"node {number} of ZooKeeper {former.name} is on {old.host}, and the file has it on"
                f" {new.host}: grow and replace a host one after the other"
            )
    if len(wanted.nodes) > count > 1:
        for each in former.nodes:
            if each.key in were_here and not each.member:
                yield (
                    f"ZooKeeper {former.name} was started by an older version: run `heliograph up`"
                    f" with its {count} nodes first"
                )


def moved_numbers(wanted: Ensemble, members: Mapping[int, str]) -> list[str]:
    """Return the nodes that serve under another number than the file has, one line each.

    `members` are those of an ensemble that serves at an address of the file.
    """
    numbers = {_client_address(text): number for number, text in members.items()}
    return [
        f"{wanted.nodes[number - 1].host} is node {numbers[client]} of ZooKeeper {wanted.name}, and"
        f" the file has it as node {number}: hosts keep their places, and new ones follow them"
        for number, text in wanted.members.items()
        for client in (_client_address(text),)
        if numbers.get(client, number) != number
    ]


def _client_address(member: str) -> str:
    return member.partition(";")[2]


def with_kept_nodes(deployment: Deployment, running: Mapping[str, Daemon]) -> Deployment:
    """Return the deployment in which nodes do not restart because others were added.

    A node that runs learns of new members from the ensemble. `running` is by key.
    """
    daemons = tuple(kept_node(each, running.get(each.key)) for each in deployment.daemons)
    return replace(deployment, daemons=daemons)


def kept_node(daemon: Daemon, running: Daemon | None) -> Daemon:
    """Return a node as it runs if only new members make the difference."""
    if running is None or not running.member or daemon.digest == running.digest:
        return daemon
    before, after = _without_others(running), _without_others(daemon)
    known, wanted = _others(running), _others(daemon)
    if before != after or wanted[: len(known)] != known:
        return daemon
    return replace(daemon, argv=running.argv, files=running.files)


def _without_others(daemon: Daemon) -> tuple[list[str], dict[str, str]]:
    """Return the command and the files of a node without the lines of members."""
    argv = [each for each in daemon.argv if each != "--member" and not _is_line(each)]
    files = {
        path: "".join(line for line in text.splitlines(keepends=True) if not _is_line(line))
        for path, text in daemon.files.items()
    }
    return argv, files


def _others(daemon: Daemon) -> list[str]:
    return [each for each in daemon.argv if _is_line(each)]


def _is_line(text: str) -> bool:
    return text.startswith("server.")


def is_moving(growth: Growth) -> bool:
    """Return whether the clients of node 1 find it at another address afterwards."""
    before, after = growth.before.nodes[0], growth.after.nodes[0]
    return (before.ready_zookeeper, before.address) != (after.ready_zookeeper, after.address)


def add_growth(steps: Iterable[Step], growing: Iterable[Growth]) -> list[Step]:
    """Return the steps of `up`, with the growth as the reason of those on nodes."""
    reasons = {
        node.key: each.sentence()
        for each in growing
        for node in (*each.before.nodes, *each.after.nodes)
    }
    return [
        replace(step, reasons=(reasons[step.key],)) if step.key in reasons else step
        for step in steps
    ]


def _place(daemon: Daemon) -> tuple[str, int]:
    name, _, number = daemon.key.removeprefix("zookeeper-").partition(".")
    return name, int(number or 1)
