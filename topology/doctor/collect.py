"""Collects what the doctor judges: status, clusters, links, the plan, and this host."""

from __future__ import annotations

import asyncio
import resource
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.security import SecurityError
from topology.deployment.deployment import ClusterView, Deployment
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.doctor.checks import DoctorFacts
from topology.file.load import load_topology
from topology.operate.own_part import own_part
from topology.operate.preflight import plan_steps
from topology.problems import DeployError, InvalidTopology
from topology.why.collect import Question, client_of, cluster_facts, collect
from topology.why.facts import ClusterFacts

READABLE_BY_OTHERS = stat.S_IROTH


def doctor_facts(deployment: Deployment, state: StateDir, status: dict[str, Any]) -> DoctorFacts:
    """Return the facts about a deployment. `status` is the status document. Raises DeployError."""
    steps, problem = _plan(deployment, state)
    links = collect(deployment, status, deployment.links, Question()) if deployment.links else []
    return DoctorFacts(
        status=status,
        clusters=asyncio.run(_clusters(deployment.clusters)),
        links=[each.link for each in links],
        own_clusters=frozenset(each.name for each in deployment.clusters if each.brokers),
        plan=steps,
        file_problem=problem,
        open_files_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        free_bytes=_free_bytes([state.path]),
        readable_secrets=[*_readable(_secret_files(deployment))],
    )


async def _clusters(views: Iterable[ClusterView]) -> list[ClusterFacts]:
    return await asyncio.gather(*(_cluster(view) for view in views))


async def _cluster(view: ClusterView) -> ClusterFacts:
    async with client_of(view) as client:
        return await cluster_facts(view, client, None)


def _plan(deployment: Deployment, state: StateDir) -> tuple[list[str], str | None]:
    """Return what `up` would change, and why the topology file is invalid."""
    file = Path(deployment.topology_file)
    try:
        wanted = own_part(render(load_topology(file), state, topology_file=file), deployment.part)
        return [step.sentence() for step in plan_steps(wanted, state)], None
    except InvalidTopology as error:
        return [], "; ".join(error.lines()[:3])
    except (OSError, DeployError) as error:
        return [], f"{file}: {error}"


def _free_bytes(directories: Iterable[Path]) -> dict[str, int]:
    found = {}
    for directory in directories:
        try:
            found[str(directory)] = shutil.disk_usage(directory).free
        except OSError:
            continue  # the status names a directory that is gone
    return found


def _readable(paths: Iterable[str]) -> Iterator[str]:
    for path in sorted(set(paths)):
        try:
            mode = Path(path).stat().st_mode
        except OSError:
            continue  # the cluster's own error names it
        if mode & READABLE_BY_OTHERS:
            yield path


def _secret_files(deployment: Deployment) -> Iterator[str]:
    yield from (secret.file for secret in deployment.all_secrets if secret.file is not None)
    yield from deployment.all_key_files


def secret_values(deployment: Deployment) -> set[str]:
    """Return the secrets of the deployment themselves, to take them out of texts.

    A file may hold several tokens, so each line is a secret too.
    """
    found = set[str]()
    for secret in deployment.all_secrets:
        try:
            text = read_secret(secret)
        except SecurityError:
            continue  # what cannot be read cannot be in a text of ours either
        found |= {text, *text.splitlines()}
    return found
