"""The daemons of our own clusters: embedded ZooKeeper servers and brokers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from local_cluster.settings import BrokerSettings, dump_settings
from local_cluster.settings import Listener as BrokerListener
from topology.deployment.deployment import Daemon, python_command
from topology.deployment.state_dir import StateDir
from topology.deployment.zookeeper import EmbeddedZooKeeper, Node
from topology.model import Cluster, PlacedBroker, Topology, ZooKeeperChroot, ZooKeeperProcess
from topology.rules.kafka_configs import broker_config


def bootstrap_of(cluster: Cluster) -> str:
    """Return a cluster's bootstrap addresses: the first listener of every broker."""
    if cluster.external is not None:
        return cluster.external
    first = cluster.listeners[0]
    return ",".join(
        _address(first.advertised_host or broker.host, broker.ports[first.name])
        for broker in cluster.broker_list
    )


def broker_key(cluster: Cluster, broker: PlacedBroker) -> str:
    return f"broker-{cluster.name}-{broker.id}"


def broker_keys(cluster: Cluster) -> tuple[str, ...]:
    return tuple(broker_key(cluster, broker) for broker in cluster.broker_list)


def zookeeper_daemons(
    topology: Topology, own: Sequence[Cluster], state: StateDir
) -> Iterator[Daemon]:
    """Yield the servers that the clusters `own` use. Raises ZooKeeperUnavailable."""
    used = {server.name: server for each in own if (server := _zookeeper_of(topology, each)[0])}
    for server in used.values():
        yield from _zookeeper(server, state)


def broker_daemon(
    topology: Topology, cluster: Cluster, index: int, state: StateDir, directory: Path
) -> Daemon:
    """Return the broker at a place of the cluster's list, with its settings file.

    Names of certificates and secrets start at `directory`.
    """
    broker = cluster.broker_list[index]
    http_port = cluster.http.port_of(index)
    key = broker_key(cluster, broker)
    server, connect = _zookeeper_of(topology, cluster)
    listeners = tuple(
        BrokerListener(
            name=each.name,
            host=each.bind or broker.host,
            port=broker.ports[each.name],
            advertised_host=each.advertised_host or broker.host,
            advertised_port=broker.ports[each.name],
            security_protocol=each.security_protocol,
            tls=each.tls.settings(directory) if each.tls is not None else None,
            sasl=each.sasl.settings(directory) if each.sasl is not None else None,
        )
        for each in cluster.listeners
    )
    ready_file = str(state.ready_dir / f"{key}.json")
    # `data_dir / place` leaves an absolute place as it is.
    places = [state.data_dir / place for place in broker.log_dirs] or [state.data_dir]
    log_dirs = tuple(str(place / cluster.name / f"broker-{broker.id}") for place in places)
    settings = BrokerSettings(
        cluster=cluster.name,
        broker_id=broker.id,
        rack=broker.rack,
        listeners=listeners,
        inter_broker_listener=cluster.inter_broker_listener.name,
        inter_broker_security=cluster.inter_broker_security.client(directory),
        broker_principals=tuple(cluster.effective_broker_principals),
        zookeeper_connect=connect,
        log_dirs=log_dirs,
        flush=cluster.flush,
        config=broker_config(cluster),
        ready_file=ready_file,
        http_host=cluster.http.host,
        http_port=http_port,
    )
    settings_file = str(state.settings_dir / f"{key}.json")
    return Daemon(
        key=key,
        role="broker",
        label=f"broker {broker.id} of {cluster.name}",
        argv=python_command("local_cluster", "--settings", settings_file),
        files={settings_file: dump_settings(settings).decode()},
        ready_file=ready_file,
        after=_zookeeper_keys(server) if server is not None else (),
        waits_for="started",
        ports=(
            *((each.host, each.port) for each in listeners),
            *([(cluster.http.host, http_port)] if http_port else []),
        ),
    )


def _zookeeper_of(topology: Topology, cluster: Cluster) -> tuple[ZooKeeperProcess | None, str]:
    """Return a cluster's embedded server, if it uses one, and its connect string with chroot."""
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


def _zookeeper(server: ZooKeeperProcess, state: StateDir) -> Iterator[Daemon]:
    """Yield a single server, or every node of an ensemble."""
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


def _zookeeper_keys(server: ZooKeeperProcess) -> tuple[str, ...]:
    """Return the key of each node. No server name has a dot, so no two servers share a key."""
    if server.nodes == 1:
        return (f"zookeeper-{server.name}",)
    return tuple(f"zookeeper-{server.name}.{number}" for number in range(1, server.nodes + 1))


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
