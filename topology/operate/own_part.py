"""The part of a deployment that belongs to this host, by the host's addresses."""

from __future__ import annotations

import errno
import socket

from topology.deployment.deployment import Deployment, Part, read_deployment
from topology.deployment.parts_of_hosts import lost_hosts, part_here
from topology.deployment.state_dir import StateDir
from topology.problems import DeployError


def own_part(deployment: Deployment, part: Part | None) -> Deployment:
    """Return the deployment with this host's daemons only. Raises DeployError."""
    return part_here(deployment, part, is_local)


def check_part(deployment: Deployment, state: StateDir) -> None:
    """Check that a state directory runs the same part of the file as before. Raises DeployError."""
    if not state.exists():
        return
    before = read_deployment(state)
    if before.part != deployment.part:
        what = f"{_name(before.part)} of {before.name}"
        raise DeployError(
            f"{state.path} runs {what}, not {_name(deployment.part)}",
            ["choose another --state-dir, or take that part down first"],
        )
    if lost := lost_hosts(before, deployment):
        raise DeployError(
            f"{', '.join(lost)} was an address of this host, and is none any more;"
            " nothing was changed",
            ["--host NAME says which host of the file this one is"],
        )


def is_local(host: str) -> bool:
    """Return whether a name or an address is one of this host. Raises DeployError."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise DeployError(
            f"cannot tell whether {host} is this host: {error.strerror or error}",
            ["--host NAME says which host of the file this one is"],
        ) from error
    return any(_can_bind(family, address) for family, _, _, _, address in found)


def _can_bind(family: int, address: tuple[str | int, ...] | tuple[int, bytes]) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as attempt:
            attempt.bind(address)
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            return False
        raise DeployError(f"cannot tell whether {address[0]!r} is this host: {error}") from error
    return True


def _name(part: Part | None) -> str:
    return part.sentence() if part is not None else "what belongs to its addresses"
