"""Checks before the demo starts: the topology fits, and the state directory may be used."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Final

from topology.certificates.generate import CLIENTS, generate_for
from topology.demo.flights import AIRPORTS
from topology.deployment.deployment import Deployment, LinkView
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import load_topology
from topology.operate.down import down

OWNER_FILE: Final = "demo"
"""File that marks a state directory as the demo's, which may then delete it."""


SECRETS: Final = "demo-secrets"
"""Directory with a copy of the topology file, and with the secrets that it names."""


class DemoError(Exception):
    """The demo cannot run here; the message says what to do."""


def demo_links(deployment: Deployment) -> dict[str, LinkView]:
    """Return the link from each airport's cluster into one common aggregate. Raises DemoError."""
    by_target: dict[str, dict[str, LinkView]] = {}
    for link in deployment.links:
        by_target.setdefault(link.target, {})[link.source] = link
    for links in by_target.values():
        if all(name in links for name in AIRPORTS):
            return {name: links[name] for name in AIRPORTS}
    raise DemoError(
        f"{deployment.topology_file} has no aggregate with links from clusters "
        + ", ".join(AIRPORTS)
    )


def prepare(
    topology_file: Path, state_dir: Path | None, *, with_own_secrets: bool = False
) -> tuple[Deployment, StateDir]:
    """Return the deployment, and an empty state directory with the demo's mark.

    `with_own_secrets` generates the certificates and passwords that the file names, in the state
    directory. Raises DemoError, DeployError, InvalidTopology, ZooKeeperUnavailable and OSError.
    """
    topology = load_topology(topology_file)
    state = StateDir(state_dir) if state_dir is not None else StateDir.for_name(topology.name)
    file = state.path / SECRETS / topology_file.name if with_own_secrets else topology_file
    deployment = render(topology, state, topology_file=file)
    demo_links(deployment)
    if state.is_locked():
        raise DemoError(
            f"{deployment.name} is running in {state.path}; stop it with `heliograph down`"
            " or choose another --state-dir"
        )
    if state.exists():
        if not (state.path / OWNER_FILE).exists():
            raise DemoError(
                f"{state.path} has data that the demo did not make; delete it with"
                " `heliograph down --purge` or choose another --state-dir"
            )
        down(state, purge=True)
        forget(state)
    state.create()
    (state.path / OWNER_FILE).touch()
    if with_own_secrets:
        file.parent.mkdir(mode=0o700)
        shutil.copyfile(topology_file, file)
        generate_for(topology, file.parent)
    return deployment, state


def client_file(state: StateDir, cluster: str, user: str) -> Path | None:
    """Return the generated file with which kcat connects as a user, if there is one."""
    found = (state.path / SECRETS).glob(f"**/{CLIENTS}/{cluster}/{user}.librdkafka")
    return next(found, None)


def forget(state: StateDir) -> None:
    """Remove the demo's mark and secrets, and the directory if it is empty then."""
    (state.path / OWNER_FILE).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(state.path / SECRETS)
    with contextlib.suppress(OSError):
        state.path.rmdir()
