"""From a topology to the daemons that run it: pure, given the state directory's paths.

Each daemon is given a frozen settings object as a JSON file; none reads the topology file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from aggregator.settings import AggregatorSettings
from aggregator.settings import LinkSettings as AggregatorLink
from aggregator.settings import render_settings as aggregator_json
from local_cluster.client.auth.security import ClientSecurity
from local_cluster.settings import BrokerSettings
from local_cluster.settings import Listener as BrokerListener
from local_cluster.settings import dump_settings as broker_json
from mirror_maker.settings import LinkSettings as MirrorLink
from mirror_maker.settings import MirrorSettings
from mirror_maker.settings import dump_settings as mirror_json
from topology.deployment.deployment import BrokerView, ClusterView, Daemon, Deployment, LinkView
from topology.deployment.process import python_command
from topology.deployment.state import StateDir
from topology.deployment.zookeeper import EmbeddedZooKeeper, Node
from topology.file.kafka_configs import broker_config
from topology.model import Cluster, Link, PlacedBroker, Topology, ZooKeeperChroot, ZooKeeperProcess

Securities = Mapping[str, ClientSecurity]
"""How to talk to each cluster, by its name."""


def render(topology: Topology, state: StateDir, *, topology_file: Path) -> Deployment:
    """The deployment of a topology in a state directory. Raises ZooKeeperUnavailable."""
    directory = topology_file.absolute().parent
    security = {each.name: each.security.client(directory) for each in topology.clusters}
    own = [each for each in topology.clusters if each.effective_kind != "external"]
    daemons = [
        *_zookeepers(topology, own, state),
        *(_broker(topology, each, broker, state) for each in own for broker in each.broker_list),
        *_mirrors(topology, state, security),
        *_aggregators(topology, state, security),
    ]
    return Deployment(
        name=topology.name,
        topology_file=str(topology_file.absolute()),
        daemons=tuple(daemons),
        clusters=tuple(_cluster_view(each, security[each.name]) for each in topology.clusters),
        links=tuple(
            LinkView(
                name=link.effective_name,
                source=link.source,
                target=link.target,
                daemon=_mirror_key(link.target),
                is_probed=topology.is_probed(link),
            )
            for link in topology.links
        ),
    )


def bootstrap_of(cluster: Cluster) -> str:
    """Addresses clients start from: the first listener of every broker."""
    if cluster.external is not None:
        return cluster.external
    first = cluster.listeners[0]
    return ",".join(
        _address(first.advertised_host or broker.host, broker.ports[first.name])
        for broker in cluster.broker_list
    )


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _cluster_view(cluster: Cluster, security: ClientSecurity) -> ClusterView:
    first = cluster.listeners[0]
    brokers = tuple(
        BrokerView(
            id=broker.id,
            host=first.advertised_host or broker.host,
            port=broker.ports[first.name],
            daemon=_broker_key(cluster, broker),
        )
        for broker in cluster.broker_list
    )
    return ClusterView(
        name=cluster.name,
        kind=cluster.effective_kind,
        datacenter=cluster.effective_datacenter,
        bootstrap=bootstrap_of(cluster),
        security=security,
        brokers=brokers,
        aggregator=_aggregator_key(cluster) if cluster.has_aggregator else None,
    )


def _place(topology: Topology, cluster: Cluster) -> tuple[ZooKeeperProcess | None, str]:
    """The embedded server a cluster uses, if any, and its connect string with chroot."""
    place = cluster.zookeeper
    if isinstance(place, str) and place != "embedded":
        return None, place
    servers = topology.effective_zookeepers
    chroot = f"/{cluster.name}"
    server = servers[0]
    if isinstance(place, ZooKeeperChroot):
        server = next(each for each in servers if each.name == place.embedded)
        chroot = place.chroot or chroot
    return server, f"{server.connect}{chroot}"


def _zookeepers(topology: Topology, own: list[Cluster], state: StateDir) -> Iterator[Daemon]:
    used = {server.name: server for each in own if (server := _place(topology, each)[0])}
    for server in used.values():
        yield from _zookeeper(server, state)


def _zookeeper(server: ZooKeeperProcess, state: StateDir) -> Iterator[Daemon]:
    """A server by itself, or every node of an ensemble."""
    inner = server.ports[server.nodes :]
    ensemble = tuple(
        Node(peer_port, election_port)
        for peer_port, election_port in zip(
            inner[: server.nodes], inner[server.nodes :], strict=True
        )
    )
    for number, (key, port) in enumerate(
        zip(_zookeeper_keys(server), server.client_ports, strict=True), 1
    ):
        embedded = EmbeddedZooKeeper(
            directory=state.settings_dir / key,
            data_directory=state.data_dir / key,
            port=port,
            host=server.host,
            ensemble=ensemble,
            number=number,
        )
        node = ensemble[number - 1] if ensemble else ()
        yield Daemon(
            key=key,
            role="zookeeper",
            label=f"ZooKeeper {server.name}" + (f", node {number}" if ensemble else ""),
            argv=embedded.argv,
            files={str(path): text for path, text in embedded.files.items()},
            directories=(str(embedded.directory), str(embedded.data_directory)),
            ready_zookeeper=(server.host, port),
            ports=tuple((server.host, each) for each in (port, *node)),
        )


def _broker(topology: Topology, cluster: Cluster, broker: PlacedBroker, state: StateDir) -> Daemon:
    key = _broker_key(cluster, broker)
    server, connect = _place(topology, cluster)
    inter_broker = [each for each in cluster.listeners if each.inter_broker]
    listeners = tuple(
        BrokerListener(
            name=each.name,
            host=each.bind or broker.host,
            port=broker.ports[each.name],
            advertised_host=each.advertised_host or broker.host,
            advertised_port=broker.ports[each.name],
            security_protocol=each.security_protocol,
        )
        for each in cluster.listeners
    )
    ready_file = str(state.ready_dir / f"{key}.json")
    # An absolute place stays what it is; `data_dir / place` says so.
    places = [state.data_dir / place for place in broker.log_dirs] or [state.data_dir]
    log_dirs = tuple(str(place / cluster.name / f"broker-{broker.id}") for place in places)
    settings = BrokerSettings(
        cluster=cluster.name,
        broker_id=broker.id,
        rack=broker.rack,
        listeners=listeners,
        inter_broker_listener=(inter_broker or cluster.listeners)[0].name,
        zookeeper_connect=connect,
        log_dirs=log_dirs,
        flush=cluster.flush,
        config=broker_config(cluster),
        ready_file=ready_file,
    )
    settings_file = str(state.settings_dir / f"{key}.json")
    return Daemon(
        key=key,
        role="broker",
        label=f"broker {broker.id} of {cluster.name}",
        argv=python_command("local_cluster", "--settings", settings_file),
        files={settings_file: broker_json(settings).decode()},
        ready_file=ready_file,
        after=_zookeeper_keys(server) if server is not None else (),
        waits_for="started",
        ports=tuple((each.host, each.port) for each in listeners),
    )


def _mirrors(topology: Topology, state: StateDir, security: Securities) -> Iterator[Daemon]:
    """One worker for each cluster that links write into."""
    targets: dict[str, list[Link]] = {}
    for link in topology.links:
        targets.setdefault(link.target, []).append(link)
    for name, links in targets.items():
        target = topology.cluster(name)
        key = _mirror_key(name)
        ready_file = str(state.ready_dir / f"{key}.json")
        settings = MirrorSettings(
            worker_id=f"{topology.name}-{name}",
            target_alias=name,
            target_bootstrap=bootstrap_of(target),
            target_security=security[name],
            links=tuple(_mirror_link(topology, link, security) for link in links),
            ready_file=ready_file,
            http_host=target.mirror.host,
            http_port=target.mirror.port,
        )
        settings_file = str(state.settings_dir / f"{key}.json")
        yield Daemon(
            key=key,
            role="mirror",
            label=f"mirror into {name}",
            argv=python_command("mirror_maker", "--settings", settings_file),
            files={settings_file: mirror_json(settings).decode()},
            ready_file=ready_file,
            after=_broker_keys(target),
            waits_for="started",
            ports=_http_ports(settings.http_host, settings.http_port),
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
        leads=tuple(link.leads),
        deletions=link.deletions,
        probe=topology.is_probed(link),
        **asdict(link.settings),
    )


def _aggregators(topology: Topology, state: StateDir, security: Securities) -> Iterator[Daemon]:
    for cluster in topology.clusters:
        if not cluster.has_aggregator:
            continue
        key = _aggregator_key(cluster)
        ready_file = str(state.ready_dir / f"{key}.json")
        links = [
            AggregatorLink(
                name=link.effective_name,
                datacenter=topology.cluster(link.source).effective_datacenter,
                source=link.source,
                source_bootstrap=bootstrap_of(topology.cluster(link.source)),
                source_security=security[link.source],
                names=link.topic_names,
                probe=topology.is_probed(link),
            )
            for link in topology.links
            if link.target == cluster.name
        ]
        endpoint = cluster.aggregator
        settings = AggregatorSettings(
            aggregate=cluster.name,
            bootstrap=bootstrap_of(cluster),
            security=security[cluster.name],
            links=tuple(links),
            http_host=endpoint.host if endpoint is not None else "127.0.0.1",
            http_port=endpoint.port if endpoint is not None else 0,
            ready_file=ready_file,
        )
        settings_file = str(state.settings_dir / f"{key}.json")
        yield Daemon(
            key=key,
            role="aggregator",
            label=f"aggregator of {cluster.name}",
            argv=python_command("aggregator", "--settings", settings_file),
            files={settings_file: aggregator_json(settings)},
            ready_file=ready_file,
            after=_broker_keys(cluster),
            waits_for="started",
            ports=_http_ports(settings.http_host, settings.http_port),
        )


def _http_ports(host: str, port: int) -> tuple[tuple[str, int], ...]:
    return ((host, port),) if port else ()


def _zookeeper_keys(server: ZooKeeperProcess) -> tuple[str, ...]:
    """Of its nodes. No name has a dot, so that no other server's key is one of these."""
    if server.nodes == 1:
        return (f"zookeeper-{server.name}",)
    return tuple(f"zookeeper-{server.name}.{number}" for number in range(1, server.nodes + 1))


def _broker_key(cluster: Cluster, broker: PlacedBroker) -> str:
    return f"broker-{cluster.name}-{broker.id}"


def _broker_keys(cluster: Cluster) -> tuple[str, ...]:
    return tuple(_broker_key(cluster, broker) for broker in cluster.broker_list)


def _mirror_key(target: str) -> str:
    return f"mirror-{target}"


def _aggregator_key(cluster: Cluster) -> str:
    return f"aggregator-{cluster.name}"
