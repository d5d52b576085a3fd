"""How the demo's outside clients connect: each as a user of its own, where the cluster has one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from local_cluster.client.auth.credentials import read_secret
from topology.certificates.client_properties import librdkafka_properties
from topology.deployment.deployment import ClusterView

Connection = Mapping[str, str]
"""Configs of librdkafka: `bootstrap.servers`, and how to log in."""
ADDRESS: Final = "bootstrap.servers"


def connection_as(cluster: ClusterView, user: str) -> Connection:
    """Return how to connect as a user that the file declares, or else as `security` says.

    Raises SecurityError.
    """
    security = cluster.security
    users = () if cluster.rights is None else cluster.rights.users
    for each in users:
        if each.name == user:
            security = replace(security, username=user, password=each.password)
    password = "" if security.password is None else read_secret(security.password)
    return librdkafka_properties(cluster.bootstrap, security, password)
