"""Kubernetes manifests for a topology: a directory for each datacenter. Pure.

    DIR/DATACENTER/kustomization.yaml
    DIR/DATACENTER/SET.yaml    a set of equal processes, such as the brokers of a cluster

A set is a StatefulSet with its settings, a headless Service and a PodDisruptionBudget. Kubernetes
restarts its pods one by one, each when the one before is ready. Pods are numbered from the first
broker id, or from 1 (`spec.ordinals`: Kubernetes 1.27).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath

from local_cluster.http_security.settings import missing_at
from topology.model import Topology
from topology.problems import DeployError
from topology.rendering.containers import (
    RIGHTS,
    Container,
    containers_of,
    rendered,
)
from topology.rendering.kubernetes_objects import (
    ContainerSet,
    Object,
    Site,
    bootstrap_service,
    config_map,
    disruption_budget,
    headless_service,
    job,
    network_policy,
    secret_key,
    stateful_set,
)
from topology.rendering.placed import (
    ANY_ADDRESS,
    HTTP_PORT,
    ZOOKEEPER_PORT,
    ZOOKEEPER_TLS_PORT,
    Place,
    dns_label,
    placed,
)
from topology.rendering.processes import CONFIGURATION
from topology.rendering.yaml_text import yaml_text

DomainOf = Callable[[str], str]
"""Returns the cluster domain of a datacenter's Kubernetes, such as cluster.local."""


def kubernetes_files(site: Site, sets: Iterable[ContainerSet]) -> dict[str, str]:
    """Return the text of each file by its path below the output directory."""
    files: dict[str, str] = {}
    names: dict[str, list[str]] = {}
    for each in sets:
        place = each.first.place
        directory = dns_label(place.datacenter)
        names.setdefault(directory, []).append(f"{each.name}.yaml")
        files[f"{directory}/{each.name}.yaml"] = yaml_text(
            f"{each.first.label} of {site.deployment}; docs/operations/containers.md"
            if len(each.containers) == 1
            else f"{place.role}s {place.of} of {site.deployment}; docs/operations/containers.md",
            *_objects(site, each),
        )
    for directory, resources in names.items():
        files[f"{directory}/kustomization.yaml"] = yaml_text(
            "kubectl apply -k DIRECTORY; patch here what your Kubernetes needs",
            {
                "apiVersion": "kustomize.config.k8s.io/v1beta1",
                "kind": "Kustomization",
                "namespace": site.namespace,
                "resources": sorted(resources),
            },
        )
    return files


def secret_commands(site: Site, sets: Iterable[ContainerSet]) -> list[str]:
    """Return the commands that create the Secrets, with the names of files as the topology has
    them. The same Secrets serve every datacenter."""
    containers = [one for each in sets for one in each.containers]
    paths = sorted({path for each in containers for path in each.files})
    names = [str(PurePosixPath(path).relative_to(CONFIGURATION)) for path in paths]
    variables = sorted({each for one in containers for each in one.variables})
    create = f"kubectl -n {site.namespace} create secret generic"
    commands = []
    if names:
        pairs = " ".join(f"--from-file={secret_key(name)}={name}" for name in names)
        commands.append(f"{create} {site.files_secret} {pairs}")
    if variables:
        pairs = " ".join(f'--from-literal={name}="${name}"' for name in variables)
        commands.append(f"{create} {site.environment_secret} {pairs}")
    return commands


def container_sets(topology: Topology, site: Site, domain: DomainOf) -> list[ContainerSet]:
    """Return every set of equal containers. Raises DeployError."""

    def address(place: Place) -> str:
        return f"{place.name}.{place.set_name}.{site.namespace}.svc.{domain(place.datacenter)}"

    _check_http(topology)
    here = placed(topology, address)
    groups: dict[str, list[Container]] = {}
    for container in containers_of(rendered(here)):
        groups.setdefault(container.place.set_name, []).append(container)
    for each in groups.values():
        _check(each)
    return [_container_set(here, each) for each in groups.values()]


def _check_http(topology: Topology) -> None:
    """Raise DeployError if every pod of the Kubernetes could give orders to mirrors."""
    missing = missing_at(ANY_ADDRESS, topology.http_security.server(Path()))
    if missing:
        raise DeployError(
            f"other pods reach the HTTP ports, so `http_security` of {topology.name} needs"
            f" {' and '.join(missing)}; `allow_insecure: true` there accepts that"
        )


def _container_set(here: Topology, containers: list[Container]) -> ContainerSet:
    place = containers[0].place
    ports: Mapping[str, int] = {"http": HTTP_PORT}
    by_zone = False
    if place.role == "zookeeper":
        ports = {"client": ZOOKEEPER_PORT}
        if any(each.client_tls and each.name == place.of for each in here.zookeepers):
            ports = {**ports, "client-tls": ZOOKEEPER_TLS_PORT}
        if len(containers) > 1:
            ports = {**ports, "peer": ZOOKEEPER_PORT + 1, "election": ZOOKEEPER_PORT + 2}
    elif place.role == "broker":
        brokers = here.cluster(place.of).broker_list
        ports = {**ports, **{f"tcp-{port}": port for port in brokers[0].ports.values()}}
        by_zone = all(each.rack == each.host for each in brokers)
    elif place.role == RIGHTS:
        ports = {}
    return ContainerSet(containers=containers, ports=ports, takes_rack_of_zone=by_zone)


def _check(containers: Iterable[Container]) -> None:
    """Raise DeployError for what a StatefulSet cannot express."""
    first, *rest = containers
    for index, each in enumerate(rest, 1):
        if each.place.number != first.place.number + index:
            raise DeployError(
                f"the ids of {first.place.of} must follow one another: a StatefulSet numbers its"
                f" pods from {first.place.number}, and {each.label} is not"
                f" {first.place.number + index}"
            )
        if each.data != first.data:
            raise DeployError(f"{each.label} and {first.label} must have the same `log_dirs`")
    outside = [
        path
        for each in (first, *rest)
        for path in each.files
        if not PurePosixPath(path).is_relative_to(CONFIGURATION)
    ]
    if outside:
        raise DeployError(
            "a Secret holds only files whose names are relative to the topology file",
            sorted(set(outside)),
        )


def _objects(site: Site, each: ContainerSet) -> list[Object]:
    if each.first.place.role == RIGHTS:
        return [config_map(site, each), job(site, each)]
    objects = [config_map(site, each), headless_service(site, each), stateful_set(site, each)]
    if each.first.place.role == "broker":
        objects.append(bootstrap_service(site, each))
    if each.first.place.role == "zookeeper":
        objects.append(network_policy(site, each))
    if len(each.containers) > 1:
        objects.append(disruption_budget(site, each))
    return objects
