"""A Kafka broker's `server.properties` as a topology with one cluster. Pure.

The cluster is a new one: Kafka's logs and its data in ZooKeeper are not read. So the topology has a
chroot of its own, also if it keeps the ensemble of `zookeeper.connect`; a broker of ours must not
join Kafka's cluster. A mirror moves the data.

Source: SocketServerConfigs, ServerLogConfigs, ReplicationConfigs and their parts, Kafka 3.9.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from local_cluster.broker_configs import find_problem, is_known
from local_cluster.controller.model.znode_access import SET_ACL
from topology.file.mm2_properties import Mm2Reading
from topology.file.property_keys import InvalidProperties, Remark, parse_properties
from topology.importing.broker_keys import BrokerKeys
from topology.importing.broker_security import (
    READ_BY_SECURITY,
    authorizer,
    listener_security,
    logins,
    super_users,
)
from topology.model import Topology
from topology.model.scalars import ANY_ADDRESSES
from topology.rules.checks import check_rules
from topology.rules.parts import Parts

NO_COUNTERPART: Final = "has no effect: there is no counterpart"
DEFAULT_PORT: Final = 9092
_ENDPOINT: Final = re.compile(r"([A-Za-z0-9_-]+)://(\[[^\]]*\]|[^:]*):(\d+)")
_KRAFT: Final = re.compile(
    r"process\.roles|controller\..*|metadata\..*|initial\.broker\.registration\.timeout\.ms"
    r"|broker\.(heartbeat\.interval|session\.timeout)\.ms"
)
_THREADS: Final = re.compile(r".*\.threads(\..*)?|background\.threads|queued\.max\..*")


class Endpoint(NamedTuple):
    """An entry of `listeners` or `advertised.listeners`."""

    name: str
    host: str
    port: int


def read_server_properties(text: str, name: str = "kafka") -> Mm2Reading:
    """Return the topology of a properties file, and remarks on keys without effect."""
    try:
        keys = BrokerKeys(parse_properties(text))
    except InvalidProperties as error:
        return Mm2Reading(None, [Remark(error.line, "properties", str(error), is_problem=True)])
    cluster = _cluster(keys, name)
    _remark_others(keys)
    document = {"name": name, "clusters": [cluster]}
    topology = None if keys.has_problems else _validated(keys, document)
    return Mm2Reading(None if keys.has_problems else topology, sorted(keys.remarks), keys.secrets)


def _cluster(keys: BrokerKeys, name: str) -> dict[str, Any]:
    listeners, ports, host = _listeners(keys)
    broker = {"id": _broker_id(keys), "host": host, "ports": ports}
    rack = keys.value("broker.rack")
    if rack:
        broker["rack"] = rack
    log_dirs = keys.value("log.dirs") or keys.value("log.dir")
    if log_dirs:
        broker["log_dirs"] = [part.strip() for part in log_dirs.split(",") if part.strip()]
        where = f"a new directory {name}/broker-{broker['id']} there; Kafka's logs are not read"
        keys.remark("log.dirs" if keys.value("log.dirs") else "log.dir", f"used for {where}")
    cluster: dict[str, Any] = {"name": name, "brokers": [broker], "listeners": listeners}
    zookeeper = keys.value("zookeeper.connect")
    if zookeeper:
        ensemble, _, chroot = zookeeper.partition("/")
        cluster["zookeeper"] = f"{ensemble}/heliograph-{name}"
        keys.remark(
            "zookeeper.connect",
            f"the new cluster has chroot /heliograph-{name}; Kafka keeps /{chroot}",
        )
    cluster |= logins(keys, listeners, super_users(keys))
    cluster |= authorizer(keys)
    user = cluster.get("security", {}).get("username")
    named = cluster.get("authorizer", {}).get("super_users", [])
    if "authorizer" in cluster and user is not None and f"User:{user}" not in named:
        named.append(f"User:{user}")
        keys.remark("super.users", f"User:{user} is one, because `up` connects as that user")
    cluster["config"] = _configs(keys)
    return cluster


def _listeners(keys: BrokerKeys) -> tuple[list[dict[str, Any]], dict[str, int], str]:
    """Return the listeners, the port of each, and the broker's host."""
    controllers = _names(keys.value("controller.listener.names"))
    found = _endpoints(keys, "listeners", f"PLAINTEXT://:{DEFAULT_PORT}")
    own = [each for each in found if each.name not in controllers]
    advertised = {each.name: each for each in _endpoints(keys, "advertised.listeners", "")}
    protocols = {each.name: each.name for each in own}
    for pair in _names(keys.value("listener.security.protocol.map")):
        mapped, _, protocol = pair.partition(":")
        protocols[mapped] = protocol
    between = keys.value("inter.broker.listener.name")
    if between is None:
        protocol = keys.value("security.inter.broker.protocol") or "PLAINTEXT"
        between = next((name for name in protocols if protocols[name] == protocol), None)
    listeners = []
    for each in own:
        told = advertised.get(each.name)
        if told is not None and told.port != each.port:
            keys.problem(
                "advertised.listeners",
                f"{each.name} advertises port {told.port} and listens on {each.port};"
                " both must be the same",
            )
        listener: dict[str, Any] = {
            "name": each.name,
            "security_protocol": protocols[each.name],
            **({"inter_broker": True} if len(own) > 1 and each.name == between else {}),
            **({"bind": each.host} if each.host else {"bind": "0.0.0.0"}),
            **({"advertised_host": told.host} if told is not None and told.host else {}),
        }
        listeners.append({**listener, **listener_security(keys, each.name, protocols[each.name])})
    hosts = [told.host for told in advertised.values() if told.host]
    hosts += [each.host for each in own if each.host and each.host not in ANY_ADDRESSES]
    if not hosts:
        key = "listeners" if keys.has("listeners") else "advertised.listeners"
        keys.remark(key, "names no host; set `host` of the broker, where clients connect to")
    return listeners, {each.name: each.port for each in own}, (hosts or ["127.0.0.1"])[0]


def _endpoints(keys: BrokerKeys, key: str, default: str) -> list[Endpoint]:
    found = []
    for entry in _names(keys.value(key) or default):
        match = _ENDPOINT.fullmatch(entry)
        if match is None:
            keys.problem(key, f"{entry!r} is no NAME://host:port")
            continue
        found.append(Endpoint(match[1], match[2].strip("[]"), int(match[3])))
    return found


def _broker_id(keys: BrokerKeys) -> int:
    key = "node.id" if keys.has("node.id") else "broker.id"
    given = keys.value(key)
    if given is not None and given.isdigit():
        return int(given)
    if given is not None:
        keys.remark(key, "ids are not generated; the broker has id 1")
    return 1


def _configs(keys: BrokerKeys) -> dict[str, str]:
    """Return the configs that a broker of ours reads under the same name."""
    configs = {}
    for key in keys.unread():
        if is_known(key) and key != SET_ACL and key not in READ_BY_SECURITY:
            value = keys.value(key) or ""
            problem = find_problem(key, value)
            if problem is None:
                configs[key] = value
            else:
                keys.remark(key, f"has no effect: {problem}, not {value!r}")
    return configs


def _remark_others(keys: BrokerKeys) -> None:
    for key in keys.unread():
        if _KRAFT.fullmatch(key):
            text = "not needed: ZooKeeper keeps the metadata, and brokers elect the controller"
        elif _THREADS.fullmatch(key):
            text = "not needed: a broker runs on one event loop"
        elif key == SET_ACL:
            text = "no effect without a user: `zookeeper_security` has a user, and `set_acl`"
        elif key.startswith("zookeeper."):
            text = "has no effect: sessions have their own times"
        else:
            text = NO_COUNTERPART
        keys.remark(key, text)


def _validated(keys: BrokerKeys, document: dict[str, Any]) -> Topology | None:
    try:
        topology = Topology.model_validate(document)
    except ValidationError as error:
        for each in error.errors():
            keys.problem("listeners", f"{'.'.join(map(str, each['loc']))}: {each['msg']}")
        return None
    parts = Parts(
        clusters=dict(enumerate(topology.clusters)),
        cluster_names=frozenset(each.name for each in topology.clusters),
    )
    for finding in check_rules(parts):
        keys.problem("listeners", f"expected {finding.expected}")
    return topology


def _names(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
