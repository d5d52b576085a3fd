"""Metrics of ACLs: how many there are, how old they may be, and who was denied. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from local_cluster.monitoring.monitored import MonitoredBroker
from local_cluster.prometheus_text import Family, Sample, counter, gauge


def rights_families(broker: MonitoredBroker) -> Iterator[Family]:
    """Yield the metrics of the authorizer; none of them without one."""
    authorizer, store = broker.rights.authorizer, broker.rights.store
    if authorizer is None or store is None:
        return
    if store.image is not None:
        yield gauge(
            "kafka_server_authorizermetrics_acls_total_count",
            "ACLs that this broker decides by.",
            Sample(len(store.image)),
        )
    yield gauge(
        "heliograph_acls_age_seconds",
        "How old the ACLs may be, as ZooKeeper does not answer; 0 while every change arrives.",
        Sample(store.age_ms / 1000),
    )
    yield counter(
        "heliograph_denials_total",
        "Denied requests, or those that a dry run would deny.",
        *(
            Sample(count, {"listener": key.listener, "principal": key.principal, "api": key.api})
            for key, count in sorted(authorizer.denials.counts.items())
        ),
    )
