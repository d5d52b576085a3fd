"""The daemons of the links: mirror workers and aggregators. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Final, NamedTuple

from aggregator.settings import AggregatorSettings, WorkerPlace, render_settings
from aggregator.settings import LinkSettings as AggregatorLink
from local_cluster.client.auth.security import ClientSecurity
from local_cluster.http_security.settings import HttpClientSecurity, HttpSecurity
from mirror_maker.settings import LinkSettings as MirrorLink
from mirror_maker.settings import MirrorSettings, dump_settings
from topology.deployment.broker_daemons import bootstrap_of, broker_keys
from topology.deployment.deployment import Daemon, python_command
from topology.deployment.state_dir import StateDir
from topology.model import Cluster, Link, Topology
from topology.model.cluster import HttpEndpoint
from topology.model.scalars import LOOPBACK, LOOPBACK_NAMES
from topology.model.security import at_host

_NO_ID: Final = re.compile(r"[^a-zA-Z0-9._-]")
"""What a worker id may not hold: it becomes a part of a group instance id."""


class _Worker(NamedTuple):
    """One mirror worker: where it runs, and how it is told from the others of its target."""

    key: str
    host: str
    port: int
    """Of its HTTP; 0 picks a free one."""
    id_suffix: str
    label_suffix: str


Securities = Mapping[str, ClientSecurity]
"""Client security of each cluster, by its name."""


def mirror_keys(target: Cluster) -> tuple[str, ...]:
    """Return the key of each mirror worker into a cluster."""
    return tuple(each.key for each in _workers(target))


def aggregator_key(cluster: Cluster) -> str:
    return f"aggregator-{cluster.name}"


def mirror_daemons(
    topology: Topology, state: StateDir, security: Securities, http_security: HttpSecurity
) -> Iterator[Daemon]:
    """Yield one mirror worker for each cluster that is a target of links."""
    targets: dict[str, list[Link]] = {}
    for link in topology.links:
        targets.setdefault(link.target, []).append(link)
    for name, links in targets.items():
        target = topology.cluster(name)
        endpoint = target.mirror
        for worker in _workers(target):
            key, host = worker.key, worker.host
            ready_file = str(state.ready_dir / f"{key}.json")
            here = {each: at_host(of, host) for each, of in security.items()}
            settings = MirrorSettings(
                worker_id=f"{topology.name}-{name}{worker.id_suffix}",
                target_alias=name,
                target_bootstrap=bootstrap_of(target),
                target_security=here[name],
                links=tuple(_mirror_link(topology, link, here) for link in links),
                ready_file=ready_file,
                http_host=endpoint.host,
                http_port=worker.port,
                http_security=http_security,
                log_format=topology.log_format,
            )
            settings_file = str(state.settings_dir / f"{key}.json")
            yield Daemon(
                key=key,
                role="mirror",
                label=f"mirror into {name}{worker.label_suffix}",
                argv=python_command("mirror_maker", "--settings", settings_file),
                files={settings_file: dump_settings(settings).decode()},
                ready_file=ready_file,
                after=broker_keys(target),
                waits_for="started",
                ports=_http_ports(settings.http_host, settings.http_port),
                host=host,
                datacenter=target.effective_datacenter,
                address=_http_address(endpoint, host, worker.port),
            )


def aggregator_daemons(
    topology: Topology,
    state: StateDir,
    security: Securities,
    http_security: HttpSecurity,
    workers_security: HttpClientSecurity,
) -> Iterator[Daemon]:
    """Yield the aggregator of each cluster that has one.

    `workers_security` is how an aggregator asks mirror workers.
    """
    for cluster in topology.clusters:
        if not cluster.has_aggregator:
            continue
        key = aggregator_key(cluster)
        ready_file = str(state.ready_dir / f"{key}.json")
        endpoint = cluster.aggregator or HttpEndpoint()
        host = cluster.host_of(endpoint)
        here = {each: at_host(of, host) for each, of in security.items()}
        links = [
            AggregatorLink(
                name=link.effective_name,
                datacenter=topology.cluster(link.source).effective_datacenter,
                source=link.source,
                source_bootstrap=bootstrap_of(topology.cluster(link.source)),
                source_security=here[link.source],
                names=link.topic_names,
                probe=topology.is_probed(link),
            )
            for link in topology.links
            if link.target == cluster.name
        ]
        settings = AggregatorSettings(
            aggregate=cluster.name,
            bootstrap=bootstrap_of(cluster),
            security=here[cluster.name],
            links=tuple(links),
            http_host=endpoint.host,
            http_port=endpoint.port,
            http_security=http_security,
            workers_security=workers_security,
            workers_allowed=_worker_places(cluster, host),
            log_format=topology.log_format,
            ready_file=ready_file,
        )
        settings_file = str(state.settings_dir / f"{key}.json")
        yield Daemon(
            key=key,
            role="aggregator",
            label=f"aggregator of {cluster.name}",
            argv=python_command("aggregator", "--settings", settings_file),
            files={settings_file: render_settings(settings)},
            ready_file=ready_file,
            after=broker_keys(cluster),
            waits_for="started",
            ports=_http_ports(settings.http_host, settings.http_port),
            host=host,
            datacenter=cluster.effective_datacenter,
            address=_http_address(endpoint, host, endpoint.port),
        )


def _mirror_link(topology: Topology, link: Link, security: Securities) -> MirrorLink:
    topics = link.topic_filter
    return MirrorLink(
        name=link.effective_name,
        source_alias=link.source,
        source_bootstrap=bootstrap_of(topology.cluster(link.source)),
        source_security=security[link.source],
        topics=tuple(topics.include),
        topics_exclude=tuple(topics.exclude),
        on=link.on,
        names=link.topic_names,
        origin=link.effective_origin,
        filter=link.filter,
        transform=link.transform,
        groups=tuple(link.groups.include),
        groups_exclude=tuple(link.groups.exclude),
        sync_group_offsets=link.groups.sync,
        rewind_group_offsets=link.groups.rewind,
        sync_configs=link.configs.sync,
        configs=tuple(link.configs.include),
        configs_exclude=tuple(link.configs.exclude),
        sync_acls=link.acls.sync,
        sync_group_acls=link.acls.sync and link.acls.groups,
        sync_transactional_id_acls=link.acls.sync and link.acls.transactional_ids,
        sync_quotas=link.quotas.sync,
        quota_users=tuple(link.quotas.users),
        quota_client_ids=tuple(link.quotas.client_ids),
        quota_ips=tuple(link.quotas.ips),
        quota_defaults=link.quotas.defaults,
        sync_users=link.users.sync,
        users=tuple(link.users.include),
        users_exclude=tuple(link.users.exclude),
        leads=tuple(link.leads),
        deletions=link.deletions,
        probe=topology.is_probed(link),
        **asdict(link.settings),
    )


def _http_ports(host: str, port: int) -> tuple[tuple[str, int], ...]:
    return ((host, port),) if port else ()


def _workers(target: Cluster) -> Iterator[_Worker]:
    """Yield the mirror workers into a cluster. More of them change nothing of the first ones."""
    endpoint = target.mirror
    for host in target.mirror_hosts:
        of_host = "" if endpoint.hosts is None else host
        for number in range(1, endpoint.workers + 1):
            more = number > 1
            yield _Worker(
                key=f"mirror-{target.name}"
                + (f".{of_host}" if of_host else "")
                + (f".w{number}" if more else ""),
                host=host,
                port=endpoint.port and endpoint.port + number - 1,
                id_suffix=(f"-{_NO_ID.sub('-', of_host)}" if of_host else "")
                + (f"-w{number}" if more else ""),
                label_suffix=(f" on {of_host}" if of_host else "")
                + (f", worker {number}" if more else ""),
            )


def _worker_places(cluster: Cluster, aggregator_host: str) -> tuple[WorkerPlace, ...]:
    """Return where the aggregator of a cluster may ask mirror workers."""
    if cluster.aggregator is not None and cluster.aggregator.worker_hosts is not None:
        return tuple(WorkerPlace(host=each) for each in cluster.aggregator.worker_hosts)
    hosts = cluster.mirror_hosts
    # A worker on the aggregator's own host is asked over the loopback.
    local = [LOOPBACK] if aggregator_host in hosts else []
    ports = cluster.mirror.ports or (None,)
    return tuple(
        WorkerPlace(host=each, port=port)
        for each in dict.fromkeys([*hosts, *local])
        for port in ports
    )


def _http_address(endpoint: HttpEndpoint, host: str, port: int) -> tuple[str, int] | None:
    """Return where other hosts reach an endpoint; None on a loopback address or a free port."""
    if not port or endpoint.host in LOOPBACK_NAMES:
        return None
    return (host, port)
