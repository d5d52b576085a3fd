"""What a cluster itself stops: it is silent, a partition has no leader, a disk is full. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from topology.hosts.fitness import DISK_BYTES_MIN
from topology.why.facts import Cause, ClusterFacts, TopicFacts

_SILENCES: Final = (
    ("certificate has expired", "certificate_expired", "renew the certificate of its brokers"),
    ("hostname mismatch", "certificate_name", "name this host in the brokers' certificate"),
    ("unable to get local issuer", "certificate_unknown", "set `ca_file` in its `security`"),
    ("self-signed", "certificate_unknown", "set `ca_file` in its `security`"),
    ("certificate required", "certificate_missing", "set `certificate_file` in its `security`"),
    ("gets no token", "no_token", "correct the secret or the file that `oauth` names"),
    ("token endpoint", "no_token", "correct `oauth` in its `security`, or repair the endpoint"),
    ("token in ", "no_token", "renew the token in the file that `oauth` names"),
    ("no ticket as", "no_ticket", "correct `kerberos` in its `security`, or krb5.conf"),
    ("SASL_AUTHENTICATION_FAILED", "credentials", "correct user or password in its `security`"),
    ("authentication failed", "credentials", "correct user or password in its `security`"),
    ("environment variable", "secret_missing", "set the variable that `security` names"),
    ("secret in", "secret_missing", "correct the secret's file that `security` names"),
    ("Name or service not known", "unknown_host", "correct the host in `external`, or the DNS"),
    ("Temporary failure in name", "unknown_host", "correct the host in `external`, or the DNS"),
    ("refused", "not_listening", "start its brokers, or correct their addresses"),
    ("Connect call failed", "not_listening", "start its brokers, or correct their addresses"),
)
"""(part of the client's message, code, remedy), the first that fits."""


def silence(cluster: ClusterFacts) -> Cause | None:
    """Return why a cluster does not respond."""
    if cluster.silent is None:
        return None
    for part, code, remedy in _SILENCES:
        if part.lower() in cluster.silent.lower():
            return Cause(code, cluster.silent, remedy)
    return Cause(
        "cluster_silent", cluster.silent, "check its brokers and the network; then it continues"
    )


def partition_causes(cluster: ClusterFacts, name: str, topic: TopicFacts) -> Iterator[Cause]:
    """Yield what stops reading or writing of a topic's partitions."""
    least = topic.configs.get("min.insync.replicas")
    minimum = int(least) if least is not None and least.isdecimal() else None
    for index, part in sorted(topic.partitions.items()):
        at = f"{name}-{index} on {cluster.name}"
        gone = sorted(set(part.replicas) - cluster.brokers)
        missing = f"broker {', '.join(map(str, gone))} does not run" if gone else None
        if part.leader is None:
            yield Cause(
                "no_leader",
                f"{at} has no leader{f': {missing}' if missing else ''}",
                "start its brokers; if they are lost, `heliograph broker elect-leaders --unclean`"
                " gives up their records",
            )
        elif minimum is not None and len(part.isr) < minimum:
            yield Cause(
                "under_min_isr",
                f"{at} has {len(part.isr)} replicas in sync, and min.insync.replicas is {minimum}"
                f"{f': {missing}' if missing else ''}",
                "start the missing brokers, or wait until their replicas are in sync",
            )
        elif gone:
            yield Cause(
                "under_replicated", f"{at} lacks a replica: {missing}", "start it", is_fault=False
            )


def disk_causes(cluster: ClusterFacts) -> Iterator[Cause]:
    """Yield the log directories that take no records."""
    for broker, directory, error, usable in cluster.log_dirs:
        at = f"broker {broker} of {cluster.name}, log directory {directory}"
        if error is not None:
            yield Cause(
                "log_dir_offline", f"{at}: {error}", "replace the disk, and restart the broker"
            )
        elif usable is not None and usable < DISK_BYTES_MIN:
            yield Cause(
                "disk_full",
                f"{at} has {usable} bytes left",
                "make room: shorten retention, or `heliograph topic trim`",
            )
