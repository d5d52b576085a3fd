"""Rules within one cluster: listeners, brokers, log directories, racks, external clusters. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from topology.model import Broker, BrokerCount, Cluster
from topology.model.scalars import ANY_ADDRESSES
from topology.problems import Finding, Location, nearest_name
from topology.rules.kafka_configs import check_configs
from topology.rules.parts import Parts, duplicates
from topology.rules.quota_rules import check_quotas
from topology.rules.rights_rules import check_rights
from topology.rules.security_rules import check_external_security, check_security

PORT_MAX: Final = 65535
_OF_OWN_CLUSTERS: Final = (
    "zookeeper",
    "zookeeper_security",
    "listeners",
    "brokers",
    "flush",
    "topic_defaults",
    "config",
    "http",
    "inter_broker_security",
    "broker_principals",
    "oauth_allowed_urls",
    "authorizer",
    "users",
    "acls",
    "quotas",
)


def check_clusters(parts: Parts) -> Iterator[Finding]:
    for index, cluster in parts.clusters.items():
        here: Location = ("clusters", index)
        if cluster.effective_kind == "external":
            yield from _check_external(cluster, here)
            continue
        if not cluster.brokers:
            yield Finding((*here, "brokers"), "a list of brokers or a count", at_key=True)
        yield from _check_listeners(cluster, here)
        yield from check_security(cluster, here)
        yield from check_rights(cluster, here)
        yield from check_quotas(cluster, here)
        yield from check_configs(cluster, here)
        if isinstance(cluster.brokers, list):
            for place, broker in enumerate(cluster.brokers):
                at = (*here, "brokers", place)
                yield from _check_advertised(cluster, broker, at)
                yield from _check_broker_ports(cluster, broker, at)
                yield from _check_log_dirs(broker, at)
            yield from duplicates(
                (((*here, "brokers", i, "id"), each.id) for i, each in enumerate(cluster.brokers)),
                "a unique broker id",
            )
        if cluster.http.port is not None and cluster.http.base_port:
            yield Finding((*here, "http", "port"), "either `port` or `base_port`")
        last_http = cluster.http.port_of(max(len(cluster.broker_list) - 1, 0))
        if last_http > PORT_MAX:
            expected = f"a base port so that the last port, {last_http}, is at most {PORT_MAX}"
            yield Finding((*here, "http", "base_port"), expected)
        if isinstance(cluster.brokers, BrokerCount):
            last = cluster.brokers.base_port - 1 + cluster.brokers.count * len(cluster.listeners)
            if last > PORT_MAX:
                expected = f"a base port so that the last port, {last}, is at most {PORT_MAX}"
                yield Finding((*here, "brokers", "base_port"), expected)
            yield from _check_advertised(cluster, cluster.brokers, (*here, "brokers"))
            yield from _check_log_dirs(cluster.brokers, (*here, "brokers"))
            yield from _check_racks(cluster.brokers, (*here, "brokers"))


def _check_advertised(
    cluster: Cluster, broker: Broker | BrokerCount, here: Location
) -> Iterator[Finding]:
    """Refuse to advertise the wildcard address, as Kafka does."""
    told = all(listener.advertised_host for listener in cluster.listeners)
    if broker.host in ANY_ADDRESSES and not told:
        expected = (
            f"an address that clients can connect to, not {broker.host!r}; a listener may `bind`"
            " that address if it has an `advertised_host`"
        )
        yield Finding((*here, "host"), expected)


def _check_log_dirs(brokers: Broker | BrokerCount, here: Location) -> Iterator[Finding]:
    yield from duplicates(
        (((*here, "log_dirs", i), each) for i, each in enumerate(brokers.log_dirs or [])),
        "a log directory that is not listed yet",
    )


def _check_racks(group: BrokerCount, here: Location) -> Iterator[Finding]:
    if group.racks is None:
        return
    if group.rack is not None:
        yield Finding((*here, "rack"), "`rack` or `racks`, not both", at_key=True)
    if len(group.racks) > group.count:
        expected = f"at most as many racks as brokers, {group.count}, not {len(group.racks)}"
        yield Finding((*here, "racks"), expected, at_key=True)
    yield from duplicates(
        (((*here, "racks", i), each) for i, each in enumerate(group.racks)), "a rack named once"
    )


def _check_external(cluster: Cluster, here: Location) -> Iterator[Finding]:
    if cluster.external is None:
        expected = "`external: host:port`, the bootstrap address of the existing Kafka"
        yield Finding((*here, "kind"), expected)
    if cluster.kind == "aggregate":
        expected = "kind external where `external` names a Kafka; add `aggregator` if it is one"
        yield Finding((*here, "kind"), expected)
    yield from check_external_security(cluster, here)
    for key in _OF_OWN_CLUSTERS:
        if key in cluster.model_fields_set:
            expected = "absent: nothing is started for an external cluster"
            yield Finding((*here, key), expected, at_key=True)


def _check_listeners(cluster: Cluster, here: Location) -> Iterator[Finding]:
    listeners = cluster.listeners
    yield from duplicates(
        (((*here, "listeners", i, "name"), each.name) for i, each in enumerate(listeners)),
        "a unique listener name",
    )
    inter_broker = sum(listener.inter_broker for listener in listeners)
    if inter_broker > 1 or (inter_broker == 0 and len(listeners) > 1):
        expected = f"one listener with inter_broker: true, not {inter_broker}"
        yield Finding((*here, "listeners"), expected, at_key=True)
    if sum(listener.former_inter_broker for listener in listeners) > 1:
        expected = "at most one listener with former_inter_broker: true"
        yield Finding((*here, "listeners"), expected, at_key=True)


def _check_broker_ports(cluster: Cluster, broker: Broker, here: Location) -> Iterator[Finding]:
    names = [listener.name for listener in cluster.listeners]
    if broker.port is not None and (broker.ports is not None or len(names) > 1):
        expected = "`ports`, with a port for each listener"
        yield Finding((*here, "port"), f"{expected}: {', '.join(names)}", at_key=True)
        return
    for name in broker.ports or {}:
        if name not in names:
            expected = f"a listener of the cluster: {', '.join(names)}"
            yield Finding((*here, "ports", name), expected, nearest_name(name, names), at_key=True)
    missing = [name for name in names if name not in (broker.ports or {})]
    if broker.port is None and missing:
        key = "port" if broker.ports is None and len(names) == 1 else "ports"
        yield Finding((*here, key), f"a port for listener {', '.join(missing)}", at_key=True)
