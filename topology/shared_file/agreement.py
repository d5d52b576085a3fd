"""Whether this host's topology file is that of all hosts, and how an edit becomes it.

`up` makes its file the next generation before it changes anything. A ZooKeeper that does not answer
yet is compared and written once everything runs.

ZooKeepers are written one after the other, in the order of their connect strings. So of two hosts
with an edit each, at most one writes the first of them, and the other stops there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from topology.deployment.deployment import Deployment
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.deployment.zookeeper_access import ZooKeeperAccess, access_of_broker
from topology.file.load import parse_topology
from topology.operate.own_part import own_part
from topology.problems import DeployError, InvalidTopology
from topology.shared_file.canonical import diff_lines
from topology.shared_file.generations import Decision, Generation, Seen, decide
from topology.shared_file.seen_notes import read_seen, write_seen
from topology.shared_file.znodes import (
    Held,
    Overtaken,
    Silent,
    read_generations,
    write_generation,
)

UNKNOWN: Final = "unknown"
"""State of a file while no ZooKeeper answers."""
READS_MAX: Final = 5
"""Times that `up` reads again because another host wrote in between."""


class FileConflict(DeployError):
    """Two hosts have edited the topology file, and neither edit follows the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """How the file of a host stands to the generations in ZooKeeper."""

    text: str
    host: str
    seen: Seen
    places: Mapping[str, ZooKeeperAccess]
    """The ZooKeeper of each of our own clusters, by connect string."""
    held: Mapping[str, Held]
    """What those that answer hold."""
    silent: Mapping[str, str]
    """Why the others do not answer."""
    decision: Decision | None
    """None if no ZooKeeper answers."""

    @property
    def state(self) -> str:
        return UNKNOWN if self.decision is None else self.decision.state

    @property
    def is_settled(self) -> bool:
        """Whether nothing is to be written, here or in a ZooKeeper that answers."""
        newest = self.newest
        return (
            self.state == "same"
            and newest is not None
            and self.seen == Seen(generation=newest)
            and all(
                each.generation is not None and each.generation.is_same(newest)
                for each in self.held.values()
            )
        )

    @property
    def newest(self) -> Generation | None:
        return None if self.decision is None else self.decision.newest

    def diff(self) -> list[str]:
        """Return what the newest generation has in another way than this host's file."""
        newest = self.newest
        if newest is None:
            return []
        return diff_lines(
            self.text, newest.text, f"the file of {self.host}", _generation_name(newest)
        )

    def as_json(self) -> dict[str, Any]:
        newest, seen = self.newest, self.seen.generation
        return {
            "state": self.state,
            "generation": newest and newest.number,
            "host": newest and newest.host,
            "written_at": newest and newest.written_at,
            "seen_generation": seen and seen.number,
            "silent": list(self.silent.values()),
            "diff": self.diff(),
        }


def shares_its_file(deployment: Deployment) -> bool:
    """Return whether other hosts have the same file."""
    return bool(deployment.elsewhere and deployment.file_text)


def file_state(
    deployment: Deployment, state: StateDir, *, replaces: int | None = None
) -> FileState | None:
    """Return how the file stands; None if no other host has it. Raises DeployError."""
    if not shares_its_file(deployment):
        return None
    text, seen = deployment.file_text, read_seen(state)
    places = zookeeper_places(deployment)
    answers = read_generations(places)
    held = {place: each for place, each in answers.items() if isinstance(each, Held)}
    stored = [each.generation for each in held.values() if each.generation is not None]
    return FileState(
        text=text,
        host=_host_name(deployment),
        seen=seen,
        places={place.connect: place for place in places},
        held=held,
        silent={place: each for place, each in answers.items() if isinstance(each, str)},
        decision=decide(text, seen, stored, replaces=replaces) if held else None,
    )


def allowed_state(
    deployment: Deployment, state: StateDir, *, replaces: int | None = None
) -> FileState | None:
    """Return how the file stands if `up` may go on with it.

    Raises FileConflict, or DeployError if the file is behind and names processes here that now
    belong to other hosts.
    """
    found = file_state(deployment, state, replaces=replaces)
    if found is not None and found.state == "conflict":
        raise _conflict(found)
    if found is not None and found.state == "behind":
        _check_behind(deployment, state, found)
    return found


def agree(
    deployment: Deployment, state: StateDir, *, replaces: int | None = None
) -> FileState | None:
    """Make the file of this host the newest generation if it may be; return how it stands then.

    Raises as `allowed_state`, or DeployError if that failed.
    """
    for _ in range(READS_MAX):
        found = allowed_state(deployment, state, replaces=replaces)
        if found is None or found.decision is None or found.state == "behind":
            return found
        try:
            written = _write(found, found.decision, state)
        except Overtaken:
            continue
        return replace(found, decision=Decision(state="same", newest=written))
    raise DeployError(f"other hosts write the topology all the time: {READS_MAX} writes failed")


def zookeeper_places(deployment: Deployment) -> list[ZooKeeperAccess]:
    """Return where each of our own clusters has its znodes, in the order of writing."""
    found = [
        access_of_broker(deployment.daemon(cluster.brokers[0].daemon).files)
        for cluster in deployment.clusters
        if cluster.brokers
    ]
    return sorted(found, key=lambda each: each.connect)


def _write(found: FileState, decision: Decision, state: StateDir) -> Generation:
    """Write the generation to every ZooKeeper that does not hold it, and note it.

    Raises Overtaken or DeployError.
    """
    if decision.state == "same":
        assert decision.newest is not None
        generation = decision.newest
    else:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        generation = decision.next(found.text, found.host, now)
        write_seen(state, replace(found.seen, claim=generation))
    for place, held in sorted(found.held.items()):
        if held.generation is None or not held.generation.is_same(generation):
            try:
                write_generation(found.places[place], generation, held)
            except Silent as error:
                raise DeployError(
                    f"{error}; generation {generation.number} of the topology may be written there",
                    ["`heliograph up` continues from here"],
                ) from error
    seen = Seen(generation=generation)
    if found.seen != seen:
        write_seen(state, seen)
    return generation


def _conflict(found: FileState) -> FileConflict:
    assert found.decision is not None
    newest, rival = found.decision.newest, found.decision.rival
    assert newest is not None
    if rival is not None:
        what = f"{_generation_name(newest)} and {_generation_name(rival)} are edits"
        diff = diff_lines(
            rival.text, newest.text, _generation_name(rival), _generation_name(newest)
        )
    else:
        what = f"{_generation_name(newest)} and the file of {found.host} are edits"
        diff = found.diff()
    return FileConflict(
        f"{what} that do not know of each other",
        [
            *diff,
            "put both edits into one file; then"
            f" `heliograph up FILE --replace-generation {newest.number}` makes it the next",
        ],
    )


def _check_behind(deployment: Deployment, state: StateDir, found: FileState) -> None:
    """Check that everything here still belongs here in the newest generation."""
    assert found.newest is not None
    name = _generation_name(found.newest)
    advice = [
        *found.diff(),
        f"get the file from {found.newest.host}, and run `heliograph up` again",
    ]
    file = Path(deployment.topology_file)
    try:
        topology = parse_topology(found.newest.text, file=name)
        there = own_part(render(topology, state, topology_file=file), deployment.part)
        keys = {each.key for each in there.daemons}
    except InvalidTopology as error:
        raise DeployError(
            f"the file is behind {name}, which this version cannot read", [*error.lines(), *advice]
        ) from error
    except DeployError:
        keys = set()  # nothing belongs to this host any more
    if moved := [each.label for each in deployment.daemons if each.key not in keys]:
        raise DeployError(
            f"the file is behind {name}, in which {', '.join(moved)} does not belong to"
            f" {found.host}",
            advice,
        )


def _generation_name(generation: Generation) -> str:
    return f"generation {generation.number} of {generation.host} ({generation.written_at})"


def _host_name(deployment: Deployment) -> str:
    """Return the name by which people know this host."""
    part = deployment.part
    return part.sentence() if part is not None else deployment.daemons[0].host
