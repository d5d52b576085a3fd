"""What secured clusters need: certificates, passwords, files for clients. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from local_cluster.client.auth.security import ClientSecurity, Mechanism
from topology.model import Cluster, Topology, ZooKeeperProcess
from topology.model.cluster import Listener
from topology.model.listener_security import Credentials
from topology.model.scalars import ANY_ADDRESSES, LOOPBACK_NAMES
from topology.model.security import SecretPlace, Security, TokenLogin

BROKER_NAME: Final = "broker"
HTTP_NAME: Final = "heliograph"
ZOOKEEPER_NAME: Final = "zookeeper"
"""Common names of certificates: of brokers, of HTTP ports alone, of embedded ZooKeepers."""
TOKENS: Final[Mechanism] = "OAUTHBEARER"
WITHOUT_PASSWORD: Final[tuple[Mechanism, ...]] = (TOKENS, "GSSAPI")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCertificate:
    """A PEM file with the chain and the key of servers."""

    ca_file: Path
    """Authority that clients of the listener trust, and that signs the certificate."""
    file: Path
    hosts: tuple[str, ...]
    """Every host by which clients reach the servers."""
    name: str = BROKER_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A user of one cluster, and how it connects."""

    cluster: str
    bootstrap: str
    security: ClientSecurity


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """Everything that `heliograph certificates` can make for one topology file."""

    certificates: tuple[ServerCertificate, ...]
    password_files: tuple[Path, ...]
    clients: tuple[Client, ...]
    others: tuple[str, ...]
    """What has to come from elsewhere, one sentence each."""


def needed(topology: Topology, directory: Path, bootstraps: dict[str, str]) -> Needed:
    """Return what the file names; its relative paths start at `directory`.

    `bootstraps` holds the addresses of each cluster by its name.
    """
    certificates: dict[Path, ServerCertificate] = {}
    passwords: dict[Path, None] = {}
    clients: list[Client] = []
    others: dict[str, None] = {}
    own = [each for each in topology.clusters if each.effective_kind != "external"]
    for problem, certificate in _certificates(topology, own, directory):
        if problem is not None:
            others[problem] = None
        elif certificate is not None:
            before = certificates.get(certificate.file)
            certificates[certificate.file] = _merged(certificate, before)
    for cluster in own:
        for place in _places(cluster):
            if place.file is not None:
                passwords[directory / place.file] = None
            else:
                others[f"environment variable {place.env} holds a password"] = None
        for oauth in _logins(cluster):
            others[f"{cluster.name}: the issuer of tokens gives {_grant_of(oauth)}"] = None
        clients += _clients(cluster, directory, bootstraps[cluster.name])
    http = topology.http_security
    for token in (http.token, http.metrics_token):
        if token is not None and token.file is not None:
            passwords[directory / token.file] = None
        elif token is not None:
            others[f"environment variable {token.env} holds a token"] = None
    return Needed(
        certificates=tuple(certificates.values()),
        password_files=tuple(passwords),
        clients=tuple(clients),
        others=tuple(others),
    )


Made = tuple[str | None, ServerCertificate | None]
"""Why a certificate cannot be made, or the certificate; neither without TLS."""


def _certificates(topology: Topology, own: list[Cluster], directory: Path) -> Iterator[Made]:
    for cluster in own:
        for listener in cluster.listeners:
            problem, certificate = _certificate(cluster, listener, directory)
            yield None if problem is None else f"{cluster.name}: {problem}", certificate
    for server in topology.effective_zookeepers:
        users = [each for each in own if topology.zookeeper_server(each) == server]
        problem, certificate = _zookeeper_certificate(server, users, directory)
        named = f"zookeepers entry {server.name}"
        yield None if problem is None else f"{named}: {problem}", certificate
    yield _http_certificate(topology, directory)


def _certificate(cluster: Cluster, listener: Listener, directory: Path) -> Made:
    tls = listener.tls
    if tls is None:
        return None, None
    between = listener is cluster.inter_broker_listener and listener is not cluster.listeners[0]
    ca_file = (cluster.inter_broker_security if between else cluster.security).ca_file
    what = f"the certificate of listener {listener.name}"
    if ca_file is None:
        return f"{what} comes from an authority of the system, as no `ca_file` is named", None
    if tls.keystore_type != "PEM" or tls.key_file is not None or tls.keystore_password is not None:
        return f"{what} is not one PEM file without a password", None
    if tls.client_auth == "required":
        return f"listener {listener.name} requires client certificates", None
    hosts = {listener.advertised_host or broker.host for broker in cluster.broker_list}
    return None, ServerCertificate(
        ca_file=directory / ca_file,
        file=directory / tls.keystore_file,
        hosts=tuple(sorted(hosts)),
    )


def _zookeeper_certificate(server: ZooKeeperProcess, users: list[Cluster], directory: Path) -> Made:
    """Return that of the port for clients, by the clusters that use the server."""
    tls = server.client_tls
    if tls is None:
        return None, None
    ca_files = [each.zookeeper_security.ca_file for each in users if each.zookeeper_security]
    ca_file = next((each for each in ca_files if each is not None), None)
    if ca_file is None:
        return "no cluster that uses it names a `ca_file` in `zookeeper_security`", None
    if tls.client_ca_file is not None:
        return "its `client_tls` requires client certificates", None
    return None, ServerCertificate(
        ca_file=directory / ca_file,
        file=directory / tls.keystore_file,
        hosts=tuple(sorted({node.host for node in server.node_list})),
        name=ZOOKEEPER_NAME,
    )


def _http_certificate(topology: Topology, directory: Path) -> Made:
    http = topology.http_security
    tls, what = http.tls, "the certificate of HTTP ports"
    if tls is None:
        return None, None
    if http.ca_file is None:
        return f"{what} comes from an authority of the system, as no `ca_file` is named", None
    if tls.keystore_type != "PEM" or tls.key_file is not None or tls.keystore_password is not None:
        return f"{what} is not one PEM file without a password", None
    hosts = set(LOOPBACK_NAMES)
    if topology.supervisors is not None:
        hosts |= {node.host for each in topology.zookeepers for node in each.node_list}
    for cluster in topology.clusters:
        hosts |= {broker.host for broker in cluster.broker_list}
        hosts |= {cluster.http.host, cluster.mirror.host, *(cluster.mirror.hosts or ())}
        if cluster.aggregator is not None:
            hosts.add(cluster.aggregator.host)
    return None, ServerCertificate(
        ca_file=directory / http.ca_file,
        file=directory / tls.keystore_file,
        hosts=tuple(sorted(hosts - ANY_ADDRESSES)),
        name=HTTP_NAME,
    )


def _merged(new: ServerCertificate, before: ServerCertificate | None) -> ServerCertificate:
    hosts = {*new.hosts, *(before.hosts if before is not None else ())}
    return replace(before or new, hosts=tuple(sorted(hosts)))


def _places(cluster: Cluster) -> Iterator[SecretPlace]:
    """Yield the place of every password of a user."""
    connections: list[Security | Credentials] = [cluster.security, cluster.inter_broker_security]
    principals = cluster.principals
    connections += [principals.mirror, principals.aggregator, principals.spark]
    yield from (each.password for each in connections if each.password is not None)
    for listener in cluster.listeners:
        if listener.sasl is not None:
            yield from listener.sasl.users.values()
    yield from cluster.users.values()
    if cluster.zookeeper_security is not None:
        yield cluster.zookeeper_security.password


def _logins(cluster: Cluster) -> Iterator[TokenLogin]:
    """Yield where tokens of brokers, commands and services come from."""
    principals = cluster.principals
    connections: list[Security | Credentials] = [cluster.security, cluster.inter_broker_security]
    connections += [principals.mirror, principals.aggregator, principals.spark]
    yield from (each.oauth for each in connections if each.oauth is not None)


def _grant_of(oauth: TokenLogin) -> str:
    if oauth.client_id is not None:
        return f"client ID {oauth.client_id} and its secret"
    return f"the file {oauth.assertion_file or oauth.token_file}"


def _clients(cluster: Cluster, directory: Path, bootstrap: str) -> Iterator[Client]:
    """Yield every user of the first listener, except the brokers."""
    sasl = cluster.listeners[0].sasl
    if sasl is None:
        return
    mechanism = _mechanism_of_users(cluster.security.mechanism, sasl.mechanisms)
    if mechanism is None:
        return
    users = {**sasl.users, **cluster.users}
    for name, place in users.items():
        if name != cluster.inter_broker_security.username:
            user = Credentials(username=name, password=place, mechanism=mechanism)
            security = user.replace_in(cluster.security)
            yield Client(
                cluster=cluster.name, bootstrap=bootstrap, security=security.client(directory)
            )


def _mechanism_of_users(used: Mechanism | None, offered: Sequence[Mechanism]) -> Mechanism | None:
    """Return by which mechanism users with passwords log in, None if none has a password."""
    if used not in WITHOUT_PASSWORD:
        return used
    return next((each for each in offered if each not in WITHOUT_PASSWORD), None)
