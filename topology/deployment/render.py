"""A topology to the deployment that runs it. Pure, given the paths of the state directory.

Each daemon gets a frozen settings object as a JSON file. No daemon reads the topology file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from local_cluster.client.auth.security import ClientSecurity
from topology.deployment.broker_daemons import (
    bootstrap_of,
    broker_daemon,
    broker_key,
    zookeeper_daemons,
    zookeeper_of,
)
from topology.deployment.declared_rights import declared_rights
from topology.deployment.deployment import BrokerView, ClusterView, Deployment, LinkView
from topology.deployment.link_daemons import (
    aggregator_daemons,
    aggregator_key,
    mirror_daemons,
    mirror_keys,
)
from topology.deployment.state_dir import StateDir
from topology.deployment.supervisor_ports import SupervisorPorts
from topology.model import Cluster, Topology
from topology.model.listener_security import Credentials, Principals
from topology.model.secret_places import (
    http_key_files_of,
    http_secrets_of,
    key_files_of,
    secrets_of,
)


def render(topology: Topology, state: StateDir, *, topology_file: Path) -> Deployment:
    """Return the deployment of a topology in a state directory, with the daemons of every host.

    The command of an embedded ZooKeeper is empty if this host has no Java or no jars for it.
    """
    views = views_of(topology, topology_file)
    directory = topology_file.absolute().parent
    own = [each for each in topology.clusters if each.effective_kind != "external"]
    brokers = [
        broker_daemon(topology, each, index, state, directory)
        for each in own
        for index in range(len(each.broker_list))
    ]
    daemons = [
        *zookeeper_daemons(topology, own, state, directory),
        *brokers,
        *mirror_daemons(
            topology,
            state,
            _securities(topology, directory, lambda each: each.mirror),
            topology.http_security.server(directory),
        ),
        *aggregator_daemons(
            topology,
            state,
            _securities(topology, directory, lambda each: each.aggregator),
            topology.http_security.server(directory),
            topology.http_security.client(directory),
        ),
    ]
    installed = version("heliograph")
    return replace(
        views,
        daemons=tuple(
            each if each.role == "zookeeper" else replace(each, version=installed)
            for each in daemons
        ),
    )


def views_of(topology: Topology, topology_file: Path) -> Deployment:
    """Return the clusters and links of a topology, without the daemons that run them."""
    directory = topology_file.absolute().parent
    return Deployment(
        name=topology.name,
        topology_file=str(topology_file.absolute()),
        clusters=tuple(_cluster_view(topology, each, directory) for each in topology.clusters),
        links=tuple(
            LinkView(
                name=link.effective_name,
                source=link.source,
                target=link.target,
                daemon=workers[0],
                workers=workers,
                is_probed=topology.is_probed(link),
            )
            for link in topology.links
            for workers in (mirror_keys(topology.cluster(link.target)),)
        ),
        http=topology.http_security.client(directory),
        http_metrics_token=topology.http_security.server(directory).metrics_token,
        http_secrets=tuple(http_secrets_of(topology.http_security, directory)),
        http_key_files=tuple(http_key_files_of(topology.http_security, directory)),
        supervisors=_supervisor_ports(topology, directory),
    )


def _supervisor_ports(topology: Topology, directory: Path) -> SupervisorPorts | None:
    ports = topology.supervisors
    if ports is None:
        return None
    return SupervisorPorts(
        port=ports.port,
        bind=ports.bind,
        hosts=None if ports.hosts is None else tuple(ports.hosts),
        security=topology.http_security.server(directory),
    )


def _securities(
    topology: Topology, directory: Path, service: Callable[[Principals], Credentials]
) -> dict[str, ClientSecurity]:
    """Return how a service connects to each cluster."""
    return {
        each.name: service(each.principals).replace_in(each.security).client(directory)
        for each in topology.clusters
    }


def _cluster_view(topology: Topology, cluster: Cluster, directory: Path) -> ClusterView:
    first = cluster.listeners[0]
    spark = cluster.principals.spark
    as_spark = spark.replace_in(cluster.security)
    brokers = tuple(
        BrokerView(
            id=broker.id,
            host=first.advertised_host or broker.host,
            port=broker.ports[first.name],
            daemon=broker_key(cluster, broker),
        )
        for broker in cluster.broker_list
    )
    rights = None
    if cluster.effective_kind != "external":
        rights = declared_rights(cluster, zookeeper_of(topology, cluster)[1], directory)
    return ClusterView(
        name=cluster.name,
        kind=cluster.effective_kind,
        datacenter=cluster.effective_datacenter,
        bootstrap=bootstrap_of(cluster),
        security=cluster.security.client(directory),
        spark_security=None if spark == Credentials() else as_spark.client(directory),
        secrets=tuple(secrets_of(cluster, directory)),
        key_files=tuple(key_files_of(cluster, directory)),
        brokers=brokers,
        aggregator=aggregator_key(cluster) if cluster.has_aggregator else None,
        rights=rights,
    )
