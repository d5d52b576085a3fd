"""Rules on HTTP ports: what other hosts reach needs a token and TLS. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from local_cluster.http_security.settings import HttpSecurity as ServerSecurity
from local_cluster.http_security.settings import missing_at
from topology.model.cluster import Cluster
from topology.model.http_security import HttpSecurity
from topology.problems import Finding, Location
from topology.rules.parts import Parts

_ANYWHERE = Path()
HERE: Location = ("http_security",)


def check_http(parts: Parts) -> Iterator[Finding]:
    """Yield what HTTP ports and their clients lack."""
    security = parts.http_security
    if security is None:
        return  # it is invalid by itself
    try:
        server = security.server(_ANYWHERE)
        security.client(_ANYWHERE)
    except ValueError as error:
        yield Finding(HERE, str(error), at_key=True)
        return
    yield from _check_clients(security, server)
    for index, cluster in parts.clusters.items():
        for key, host in _hosts(cluster):
            missing = missing_at(host, server)
            if missing:
                expected = (
                    f"127.0.0.1, or {' and '.join(missing)} in `http_security`, as other hosts"
                    f" reach {host}; `allow_insecure: true` there accepts that"
                )
                yield Finding(("clusters", index, key, "host"), expected)


def _hosts(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield the key and the address of each HTTP port of a cluster."""
    if cluster.effective_kind != "external":
        yield "http", cluster.http.host
    if cluster.aggregator is not None:
        yield "aggregator", cluster.aggregator.host
    yield "mirror", cluster.mirror.host


def _check_clients(security: HttpSecurity, server: ServerSecurity) -> Iterator[Finding]:
    """Yield why commands and aggregators could not ask the ports."""
    tls = security.tls
    if tls is None:
        return
    if "principal_mapping_rules" in tls.model_fields_set:
        expected = "absent; HTTP ports have no principals"
        yield Finding((*HERE, "tls", "principal_mapping_rules"), expected, at_key=True)
    if security.certificate_file is not None or not server.takes_certificates:
        return
    if tls.client_auth == "required":
        expected = "`certificate_file` beside it, which commands and aggregators need"
        yield Finding((*HERE, "tls", "client_auth"), expected)
    elif security.token is None:
        expected = "a `token` or a `certificate_file` for commands and aggregators"
        yield Finding(HERE, expected, at_key=True)
