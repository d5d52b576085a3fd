"""The daemons of our own clusters: embedded ZooKeeper servers and brokers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from local_cluster.broker_configs import ReservedType
from local_cluster.security.authorization.reserved_names import (
    PREFIX,
    TRANSACTIONS_OF_SPARK,
)
from local_cluster.settings import BrokerSettings, dump_settings
from local_cluster.settings import Listener as BrokerListener
from topology.deployment.deployment import Daemon, python_command
from topology.deployment.state_dir import StateDir
from topology.deployment.zookeeper import (
    ClientTls,
    EmbeddedZooKeeper,
    Node,
    QuorumTls,
    ZooKeeperUnavailable,
)
from topology.deployment.zookeeper_access import zookeeper_client
from topology.ensemble.members import member_address
from topology.model import (
    Cluster,
    PlacedBroker,
    Topology,
    ZooKeeperChroot,
    ZooKeeperNode,
    ZooKeeperProcess,
)
from topology.model.cluster import Listener
from topology.model.listener_security import Credentials
from topology.model.scalars import LOOPBACK
from topology.model.security import Security, at_host, path_at
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
    topology: Topology, own: Sequence[Cluster], state: StateDir, directory: Path
) -> Iterator[Daemon]:
    """Yield the servers that the clusters `own` use; names of certificates start at `directory`."""
    users: dict[str, list[Cluster]] = {}
    for each in own:
        server, _ = zookeeper_of(topology, each)
        if server is not None:
            users.setdefault(server.name, []).append(each)
    for server in topology.effective_zookeepers:
        if server.name in users:
            yield from _zookeeper(server, state, users[server.name], directory)


def broker_daemon(
    topology: Topology, cluster: Cluster, index: int, state: StateDir, directory: Path
) -> Daemon:
    """Return the broker at a place of the cluster's list, with its settings file.

    Names of certificates and secrets start at `directory`.
    """
    broker = cluster.broker_list[index]
    http_port = cluster.http.port_of(index)
    key = broker_key(cluster, broker)
    server, connect = zookeeper_of(topology, cluster)
    listeners = _listeners(cluster, broker, directory)
    ready_file = str(state.ready_dir / f"{key}.json")
    # `data_dir / place` leaves an absolute place as it is.
    places = [state.data_dir / place for place in broker.log_dirs] or [state.data_dir]
    log_dirs = tuple(str(place / cluster.name / f"broker-{broker.id}") for place in places)
    former = cluster.former_inter_broker_listener
    settings = BrokerSettings(
        cluster=cluster.name,
        broker_id=broker.id,
        rack=broker.rack,
        listeners=listeners,
        inter_broker_listener=cluster.inter_broker_listener.name,
        inter_broker_security=at_host(
            cluster.inter_broker_security.client(directory),
            _known_as(cluster.inter_broker_listener, broker),
        ),
        broker_principals=tuple(cluster.effective_broker_principals),
        internal_topic_writers=internal_topic_writers(cluster),
        internal_types_reserved=internal_types_reserved(cluster),
        former_inter_broker_listener=None if former is None else former.name,
        oauth_allowed_urls=tuple(cluster.oauth_allowed_urls),
        zookeeper_connect=connect,
        zookeeper_security=zookeeper_client(cluster, directory),
        log_dirs=log_dirs,
        flush=cluster.flush,
        config=broker_config(cluster),
        ready_file=ready_file,
        http_host=cluster.http.host,
        http_port=http_port,
        http_security=topology.http_security.server(directory),
        log_format=topology.log_format,
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
        host=broker.host,
        datacenter=cluster.effective_datacenter,
        address=(listeners[0].advertised_host, listeners[0].advertised_port),
    )


def _listeners(
    cluster: Cluster, broker: PlacedBroker, directory: Path
) -> tuple[BrokerListener, ...]:
    return tuple(
        BrokerListener(
            name=each.name,
            host=each.bind or broker.host,
            port=broker.ports[each.name],
            advertised_host=_known_as(each, broker),
            advertised_port=broker.ports[each.name],
            security_protocol=each.security_protocol,
            tls=each.tls.settings(directory) if each.tls is not None else None,
            sasl=None
            if each.sasl is None
            else each.sasl.settings(directory, _known_as(each, broker)),
        )
        for each in cluster.listeners
    )


def _known_as(listener: Listener, broker: PlacedBroker) -> str:
    """Return the host by which clients of a listener know a broker."""
    return listener.advertised_host or broker.host


def internal_topic_writers(cluster: Cluster) -> dict[str, tuple[str, ...]] | None:
    """Return the principals of services by a prefix of the internal names that they write.

    None reserves nothing: without an authorizer, and where the file neither tells the principal of
    a service nor has an ACL that names internal topics. So no service is locked out.
    """
    if cluster.authorizer is None:
        return None
    principals = _service_principals(cluster)
    user = _principal(cluster.security)
    if PREFIX not in principals and cluster.security.username is not None and user is not None:
        # Brokers protect the producer ids of a mirror that is a super user only by its name.
        principals[PREFIX] = user
    if None in principals.values() and not _names_internal(cluster, "topics"):
        return None
    return {prefix: (each,) for prefix, each in principals.items() if each is not None}


def internal_types_reserved(cluster: Cluster) -> tuple[ReservedType, ...]:
    """Return what is reserved under internal names, if topics are.

    A mirror without a principal in the file keeps its group by an ACL on `*`. An ACL of the file
    that names such groups ends that. The same holds for transactional ids of Spark.
    """
    principals = _service_principals(cluster)
    may_miss: dict[ReservedType, str] = {
        "groups": PREFIX,
        "transactional_ids": TRANSACTIONS_OF_SPARK,
    }
    return (
        "topics",
        *(
            each
            for each, prefix in may_miss.items()
            if principals.get(prefix, "") is not None or _names_internal(cluster, each)
        ),
    )


def _service_principals(cluster: Cluster) -> dict[str, str | None]:
    """Return the principals of services by their prefix; None for those that the file lacks."""
    services = {
        PREFIX: cluster.principals.mirror,
        f"{PREFIX}probe.": cluster.principals.aggregator,
        f"{PREFIX}served.": cluster.principals.spark,
        TRANSACTIONS_OF_SPARK: cluster.principals.spark,
    }
    return {
        prefix: _principal(each.replace_in(cluster.security))
        for prefix, each in services.items()
        if each != Credentials()  # The principal of `security` is a super user.
    }


def _names_internal(cluster: Cluster, kind: ReservedType) -> bool:
    """Return whether an ACL of the file allows something on internal names of a type."""
    return any(
        name.startswith(PREFIX) and not rule.deny
        for rule in cluster.acls
        for name in getattr(rule, kind)
    )


def _principal(security: Security) -> str | None:
    """Return the principal of a service; None if only tokens, tickets or certificates know it."""
    if security.oauth is not None or security.kerberos is not None:
        return None
    if security.protocol == "SSL" and security.certificate_file is not None:
        return None
    return f"User:{security.username or 'ANONYMOUS'}"


def zookeeper_of(topology: Topology, cluster: Cluster) -> tuple[ZooKeeperProcess | None, str]:
    """Return a cluster's embedded server, if it uses one, and its connect string with chroot."""
    place, server = cluster.zookeeper, topology.zookeeper_server(cluster)
    if server is None:
        return None, str(place)
    chroot = f"/{cluster.name}"
    if isinstance(place, ZooKeeperChroot):
        chroot = place.chroot or chroot
    security = cluster.zookeeper_security
    return server, f"{server.connect(tls=security is not None and security.tls)}{chroot}"


def _zookeeper(
    server: ZooKeeperProcess, state: StateDir, users: Sequence[Cluster], directory: Path
) -> Iterator[Daemon]:
    """Yield a single server, or every node of an ensemble, that the clusters `users` use."""
    nodes, keys = server.node_list, _zookeeper_keys(server)
    tls = _quorum_tls(server, directory)
    ensemble = tuple(
        Node(node.host, node.peer_port, node.election_port)
        for node in nodes
        if node.peer_port is not None and node.election_port is not None
    )
    members = tuple(f"server.{number}={_member(node)}" for number, node in enumerate(nodes, 1))
    for number, (key, node) in enumerate(zip(keys, nodes, strict=True), 1):
        embedded = EmbeddedZooKeeper(
            directory=state.settings_dir / key,
            data_directory=state.data_dir / key,
            port=node.client_port,
            host=node.host,
            ensemble=ensemble,
            number=number,
            quorum_tls=tls,
            client_tls=_client_tls(server, node, directory),
            plain_host=node.plain_host or None,
        )
        try:
            argv = embedded.argv and _node_command(
                embedded, members, state.data_dir / _single_key(server) if ensemble else None
            )
        except ZooKeeperUnavailable:
            argv = ()  # another host may have it; `up` refuses to start it here
        near = [each for each in users if any(b.host == node.host for b in each.broker_list)]
        yield Daemon(
            key=key,
            role="zookeeper",
            label=f"ZooKeeper {server.name}" + (f", node {number}" if ensemble else ""),
            argv=argv,
            files={str(path): text for path, text in embedded.files.items()},
            directories=(str(embedded.directory), str(embedded.data_directory)),
            ready_zookeeper=node.client_address,
            ports=node.addresses,
            host=node.host,
            datacenter=(near or users)[0].effective_datacenter,
            address=node.reached_at,
            quorum=keys if ensemble else (),
            member=members[number - 1],
        )


def _node_command(
    embedded: EmbeddedZooKeeper, members: Sequence[str], former: Path | None
) -> tuple[str, ...]:
    """Return the command of a node whose ensemble can grow.

    `former` is where the data of node 1 is if it was the only node before.
    """
    takes_over = former is not None and embedded.number == 1
    return python_command(
        "topology.zookeeper_server",
        "--myid",
        str(embedded.number),
        *(word for each in members for word in ("--member", each)),
        *(("--former-data", str(former)) if takes_over else ()),
        "--config",
        str(embedded.config_file),
    )


def _member(node: ZooKeeperNode) -> str:
    """Return the addresses of a node; those of a single one for other nodes are on the loopback."""
    host, peer, election = node.host, node.peer_port, node.election_port
    if peer is None or election is None:
        host, peer, election = LOOPBACK, 0, 0
    return member_address(host, peer, election, *node.client_address)


def _quorum_tls(server: ZooKeeperProcess, directory: Path) -> QuorumTls | None:
    tls = server.quorum_tls
    if tls is None:
        return None
    return QuorumTls(
        keystore_file=str(directory / tls.keystore_file),
        ca_file=str(directory / tls.ca_file),
        check_hostname=tls.check_hostname,
    )


def _client_tls(server: ZooKeeperProcess, node: ZooKeeperNode, directory: Path) -> ClientTls | None:
    tls = server.client_tls
    if tls is None or node.tls_port is None:
        return None
    return ClientTls(
        port=node.tls_port,
        keystore_file=str(directory / tls.keystore_file),
        client_ca_file=path_at(directory, tls.client_ca_file),
    )


def _zookeeper_keys(server: ZooKeeperProcess) -> tuple[str, ...]:
    """Return the key of each node. No server name has a dot, so no two servers share a key."""
    count = len(server.node_list)
    single = _single_key(server)
    return (single,) if count == 1 else tuple(f"{single}.{n}" for n in range(1, count + 1))


def _single_key(server: ZooKeeperProcess) -> str:
    """Return the key of a server that is the only node."""
    return f"zookeeper-{server.name}"


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
