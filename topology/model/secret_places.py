"""Where the secrets and private keys of a cluster are, for texts that must not hold them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from local_cluster.client.auth.security import Secret
from topology.model.cluster import Cluster
from topology.model.http_security import HttpSecurity
from topology.model.listener_security import Credentials
from topology.model.security import SecretPlace, Security, TokenLogin


def secrets_of(cluster: Cluster, directory: Path) -> list[Secret]:
    """Return the place of every secret, each once."""
    places = {place.secret(directory) for place in _places(cluster) if place is not None}
    return sorted(places, key=lambda place: (place.file or "", place.env or ""))


def key_files_of(cluster: Cluster, directory: Path) -> list[str]:
    """Return every file with a private key that has no other use, each once."""
    files = [each.key_file for each in _clients(cluster)]
    files += [each.tls.key_file for each in cluster.listeners if each.tls is not None]
    files += [each.kerberos.keytab_file for each in _clients(cluster) if each.kerberos is not None]
    kerberos = [each.sasl.kerberos for each in cluster.listeners if each.sasl is not None]
    files += [each.keytab_file for each in kerberos if each is not None]
    if cluster.zookeeper_security is not None:
        files.append(cluster.zookeeper_security.key_file)
    return sorted({str(directory / name) for name in files if name is not None})


def http_secrets_of(security: HttpSecurity, directory: Path) -> list[Secret]:
    """Return the place of every secret of HTTP ports and their clients, each once."""
    found = [*security.server(directory).secrets]
    if security.key_password is not None:
        found.append(security.key_password.secret(directory))
    return list(dict.fromkeys(found))


def http_key_files_of(security: HttpSecurity, directory: Path) -> list[str]:
    """Return every file with a private key for HTTP that has no other use."""
    tls = security.tls
    names = (security.key_file, None if tls is None else tls.key_file)
    return sorted({str(directory / name) for name in names if name is not None})


def _clients(cluster: Cluster) -> Iterator[Security | Credentials]:
    yield cluster.security
    yield cluster.inter_broker_security
    principals = cluster.principals
    yield from (principals.mirror, principals.aggregator, principals.spark)


def _token_files(oauth: TokenLogin) -> Iterator[SecretPlace]:
    """Yield the files that hold a token: with it anybody is that client."""
    for file in (oauth.token_file, oauth.assertion_file):
        if file is not None:
            yield SecretPlace(file=file)


def _places(cluster: Cluster) -> Iterator[SecretPlace | None]:
    for client in _clients(cluster):
        yield client.password
        yield client.key_password
        if client.oauth is not None:
            yield client.oauth.client_secret
            yield from _token_files(client.oauth)
    yield from cluster.users.values()
    if cluster.zookeeper_security is not None:
        yield cluster.zookeeper_security.password
        yield cluster.zookeeper_security.key_password
    for listener in cluster.listeners:
        if listener.tls is not None:
            yield listener.tls.keystore_password
            yield listener.tls.truststore_password
        if listener.sasl is not None:
            yield from listener.sasl.users.values()
