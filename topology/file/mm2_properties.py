"""MirrorMaker 2's `mm2.properties` as a topology of external clusters and links. Pure.

A key without effect gets a remark with its line. It is a problem if the copies would differ from
what the file asks for. Passwords of `sasl.jaas.config` are returned separately, each with the
environment variable that the topology names for it.

Source: MirrorMakerConfig, MirrorConnectorConfig and their parts, Kafka 4.0. `Mm2Keys` has the
precedence of keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from mirror_maker.settings import (
    CONFIGS_EXCLUDE_DEFAULT,
    GROUPS_EXCLUDE_DEFAULT,
    TOPICS_EXCLUDE_DEFAULT,
)
from topology.file.jaas import jaas_fields
from topology.file.mm2_keys import Mm2Keys
from topology.file.property_keys import InvalidProperties, Property, Remark, parse_properties
from topology.model import Topology
from topology.rules.checks import check_rules
from topology.rules.parts import Parts

POLICIES: Final = {"DefaultReplicationPolicy": "prefixed", "IdentityReplicationPolicy": "identity"}
_MIRROR_CLASSES: Final = "org.apache.kafka.connect.mirror."


@dataclass(slots=True)
class Mm2Reading:
    """The result of reading a file."""

    topology: Topology | None
    """None if the file has a problem."""
    remarks: list[Remark]
    secrets: dict[str, str] = field(default_factory=dict)
    """The secrets of the file, by the environment variable that the topology names."""


def read_mm2(text: str, name: str = "mm2") -> Mm2Reading:
    """Return the topology of a properties file, and remarks on keys without effect."""
    try:
        entries = parse_properties(text)
    except InvalidProperties as error:
        return Mm2Reading(None, [Remark(error.line, "properties", str(error), is_problem=True)])
    return read_entries(entries, name)


def read_entries(entries: Iterable[Property], name: str) -> Mm2Reading:
    """Return the topology of MirrorMaker 2's entries, from whichever file they are."""
    return _Mm2Reader(Mm2Keys(entries)).read(name)


class _Mm2Reader:
    """Builds the topology from the keys."""

    def __init__(self, keys: Mm2Keys) -> None:
        self._keys = keys
        self._secrets: dict[str, str] = {}

    def read(self, name: str) -> Mm2Reading:
        keys = self._keys
        aliases = _list(keys.value("clusters") or "")
        if not aliases:
            keys.problem("clusters", "no clusters are named")
        pairs = [
            (source, target)
            for source in aliases
            for target in aliases
            if source != target and keys.of_flow(source, target, "enabled", "false") == "true"
        ]
        if aliases and not pairs:
            keys.problem("clusters", "no flow is enabled (`A->B.enabled = true`)")
        document = {
            "name": name,
            "clusters": [self._cluster(alias) for alias in aliases],
            "links": [self._link(source, target) for source, target in pairs],
        }
        keys.add_unread(aliases)
        topology = None if keys.has_problems else self._validated(document)
        if keys.has_problems:
            topology = None
        return Mm2Reading(topology, sorted(keys.remarks), self._secrets)

    def _cluster(self, alias: str) -> dict[str, Any]:
        bootstrap = self._keys.of_cluster(alias, "bootstrap.servers")
        if bootstrap is None:
            self._keys.problem(f"{alias}.bootstrap.servers", "is missing")
        addresses = ",".join(_list(bootstrap or ""))
        return {"name": alias, "external": addresses, "security": self._security(alias)}

    def _security(self, alias: str) -> dict[str, Any]:
        protocol = self._keys.of_cluster(alias, "security.protocol") or "PLAINTEXT"
        security: dict[str, Any] = {"protocol": protocol}
        if protocol.startswith("SASL"):
            security["mechanism"] = self._keys.of_cluster(alias, "sasl.mechanism")
            found = jaas_fields(self._keys.of_cluster(alias, "sasl.jaas.config") or "")
            if security["mechanism"] == "GSSAPI":
                security |= self._kerberos(alias, found)
            elif "username" in found and "password" in found:
                place = self._secret(alias, "PASSWORD", found["password"])
                security |= {"username": found["username"], "password": place}
            else:
                self._keys.problem(f"{alias}.sasl.jaas.config", "has no username and password")
        if protocol.endswith("SSL"):
            for store, key in (("truststore", "ca_file"), ("keystore", "certificate_file")):
                location = self._keys.of_cluster(alias, f"ssl.{store}.location")
                if location is None:
                    continue
                if (self._keys.of_cluster(alias, f"ssl.{store}.type") or "JKS").upper() != "PEM":
                    self._keys.problem(
                        f"{alias}.ssl.{store}.location",
                        f"only PEM files are supported; export it and set ssl.{store}.type=PEM",
                    )
                security[key] = location
            key_password = self._keys.of_cluster(alias, "ssl.key.password")
            if key_password is not None and "certificate_file" in security:
                security["key_password"] = self._secret(alias, "KEY_PASSWORD", key_password)
            algorithm = self._keys.of_cluster(alias, "ssl.endpoint.identification.algorithm")
            security["check_hostname"] = algorithm != ""
        return security

    def _kerberos(self, alias: str, found: Mapping[str, str]) -> dict[str, Any]:
        """Return the principal of Java's Krb5LoginModule, by the fields of its configuration."""
        service = self._keys.of_cluster(alias, "sasl.kerberos.service.name")
        if not {"keyTab", "principal"} <= found.keys():
            self._keys.problem(f"{alias}.sasl.jaas.config", "has no keyTab and principal")
            return {}
        login = {"principal": found["principal"], "keytab_file": found["keyTab"]}
        return {"kerberos": {**login, "service_name": service or found.get("serviceName", "kafka")}}

    def _secret(self, alias: str, kind: str, secret: str) -> dict[str, str]:
        """Keep a secret, and return the place that the topology names for it."""
        name = re.sub(r"[^A-Z0-9]", "_", alias.upper())
        variable = f"HELIOGRAPH_MM2_{name}_{kind}"
        while variable in self._secrets:  # the aliases differ only in other characters
            variable += "_"
        self._secrets[variable] = secret
        return {"env": variable}

    def _link(self, source: str, target: str) -> dict[str, Any]:
        def value(key: str, default: str) -> str:
            return self._keys.of_flow(source, target, key, default)

        def switch(key: str, default: str) -> bool:
            return value(key, default) == "true"

        writes_topics = switch("emit.heartbeats.enabled", "true") or switch(
            "emit.checkpoints.enabled", "true"
        )
        value("emit.offset-syncs.enabled", "true")
        location = value("offset-syncs.topic.location", "source")
        return {
            "source": source,
            "target": target,
            "names": self._naming(source, target),
            "topics": {
                "include": _list(value("topics", ".*")),
                "exclude": _list(value("topics.exclude", ",".join(TOPICS_EXCLUDE_DEFAULT))),
            },
            "groups": {
                "sync": switch("sync.group.offsets.enabled", "false"),
                "include": _list(value("groups", ".*")),
                "exclude": _list(value("groups.exclude", ",".join(GROUPS_EXCLUDE_DEFAULT))),
            },
            "configs": {
                "sync": switch("sync.topic.configs.enabled", "true"),
                "exclude": _list(
                    value("config.properties.exclude", ",".join(CONFIGS_EXCLUDE_DEFAULT))
                ),
            },
            "acls": {"sync": switch("sync.topic.acls.enabled", "true")},
            "settings": {
                "start": self._start(source, target),
                "replication_factor": self._number(source, target, "replication.factor", 2),
                "mm2_topics": location if writes_topics else "off",
            },
        }

    def _naming(self, source: str, target: str) -> str:
        keys, policy_key = self._keys, "replication.policy.class"
        given = keys.of_flow(source, target, policy_key, "DefaultReplicationPolicy")
        separator = keys.of_flow(source, target, "replication.policy.separator", ".")
        policy = POLICIES.get(given.removeprefix(_MIRROR_CLASSES))
        if policy is None:
            keys.problem(
                keys.flow_key(source, target, policy_key),
                f"{given} cannot be loaded; Default- and IdentityReplicationPolicy are known",
            )
        if separator != "." and policy == "prefixed":
            keys.problem(
                keys.flow_key(source, target, "replication.policy.separator"),
                f"copies are named with '.', not {separator!r}",
            )
        return policy or "prefixed"

    def _start(self, source: str, target: str) -> str:
        keys = (
            self._keys.flow_key(source, target, "source.consumer.auto.offset.reset"),
            self._keys.flow_key(source, target, "consumer.auto.offset.reset"),
            f"{source}.consumer.auto.offset.reset",
        )
        for key in keys:
            given = self._keys.value(key)
            if given in ("earliest", "latest"):
                return given
        return "earliest"

    def _number(self, source: str, target: str, key: str, default: int) -> int:
        given = self._keys.of_flow(source, target, key, str(default))
        if not re.fullmatch(r"-?\d+", given):
            self._keys.problem(self._keys.flow_key(source, target, key), f"{given!r} is no number")
            return default
        return int(given)

    def _validated(self, document: dict[str, Any]) -> Topology | None:
        try:
            topology = Topology.model_validate(document)
        except ValidationError as error:
            for each in error.errors():
                where = ".".join(str(part) for part in each["loc"])
                self._keys.problem("clusters", f"{where}: {each['msg']}")
            return None
        parts = Parts(
            clusters=dict(enumerate(topology.clusters)),
            links=dict(enumerate(topology.links)),
            cluster_names=frozenset(each.name for each in topology.clusters),
        )
        for finding in check_rules(parts):
            self._keys.problem("clusters", f"expected {finding.expected}")
        return topology


def _list(text: str) -> list[str]:
    return [part for part in re.split(r"\s*,\s*", text.strip()) if part]
