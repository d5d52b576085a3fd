"""MirrorMaker 2's `mm2.properties` as a topology of existing clusters and links. Pure.

What cannot be honoured is said, with its line: a remark, or a problem where going on without it
would copy something else than was asked for. Passwords of `sasl.jaas.config` are handed out apart,
each with the environment variable that the topology names for it.

Source: MirrorMakerConfig, MirrorConnectorConfig and their parts, Kafka 4.0; see `_Mm2Reader` for
the order in which keys hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from mirror_maker.settings import CONFIGS_EXCLUDE_DEFAULT
from mirror_maker.settings import GROUPS_EXCLUDE_DEFAULT as GROUPS_EXCLUDE
from mirror_maker.settings import TOPICS_EXCLUDE_DEFAULT as TOPICS_EXCLUDE
from topology.file.java_properties import Property, parse_properties
from topology.model import Topology
from topology.rules.checks import Parts, check_rules

POLICIES: Final = {"DefaultReplicationPolicy": "prefixed", "IdentityReplicationPolicy": "identity"}
_MIRROR_CLASSES: Final = "org.apache.kafka.connect.mirror."
_JAAS_FIELD: Final = re.compile(r'\b(username|password)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s;]+))')
_FLOW_KEY: Final = re.compile(r"([^\s.]+)->([^\s.]+)\.(.+)")

ALWAYS: Final = {
    "exactly.once.source.support": "copies are exactly once in any case",
    "refresh.topics.enabled": "topics are looked for every second",
    "refresh.topics.interval.seconds": "topics are looked for every second",
    "refresh.groups.enabled": "groups are looked at every second",
    "refresh.groups.interval.seconds": "groups are looked at every second",
    "sync.group.offsets.interval.seconds": "groups are synced every second",
    "emit.checkpoints.interval.seconds": "checkpoints are written every second",
    "emit.heartbeats.interval.seconds": "heartbeats are written every second",
    "sync.topic.configs.interval.seconds": "configs are compared every five seconds",
    "sync.topic.acls.interval.seconds": "ACLs are compared every five seconds",
    "offset.lag.max": "translation is exact; there is no lag to allow",
    "tasks.max": "workers share partitions among themselves",
    "dedicated.mode.enable.internal.rest": "workers find each other through the target cluster",
    "use.incremental.alter.configs": "configs are always altered one by one",
}
"""Keys without a counterpart because there is nothing left to choose."""
_FLOW_KEYS: Final = frozenset(
    {
        "enabled", "topics", "topics.exclude", "groups", "groups.exclude", "replication.factor",
        "replication.policy.class", "replication.policy.separator", "sync.group.offsets.enabled",
        "sync.topic.configs.enabled", "sync.topic.acls.enabled", "config.properties.exclude",
        "emit.heartbeats.enabled", "emit.checkpoints.enabled", "emit.offset-syncs.enabled",
        "offset-syncs.topic.location", "consumer.auto.offset.reset",
        "source.consumer.auto.offset.reset",
    }
)  # fmt: skip
_CLUSTER_KEYS: Final = frozenset(
    {
        "bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config",
        "ssl.truststore.type", "ssl.truststore.location", "ssl.keystore.type",
        "ssl.keystore.location", "ssl.key.password", "ssl.endpoint.identification.algorithm",
        "consumer.auto.offset.reset",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Remark:
    """Something that the file asks for and that is not done as it says."""

    line: int
    key: str
    text: str
    is_problem: bool = False
    """Whether going on without it would do something else than was asked for."""

    def sentence(self, file: str) -> str:
        return f"{file}:{self.line}: {self.key}: {self.text}"


@dataclass(slots=True)
class Mm2Reading:
    """What a file says."""

    topology: Topology | None
    """None where a problem leaves none."""
    remarks: list[Remark]
    secrets: dict[str, str] = field(default_factory=dict)
    """Environment variable to the secret that the topology expects there."""


def read_mm2(text: str, name: str = "mm2") -> Mm2Reading:
    """The topology that a properties file describes, and what of it is not honoured."""
    return _Mm2Reader(parse_properties(text)).read(name)


class _Mm2Reader:
    """A key of a flow holds as `A->B.key`, then as `key`; one of a cluster as `A.key`, then `key`.

    Of a key that is there twice the last one holds, as in Java.
    """

    def __init__(self, entries: Iterable[Property]) -> None:
        self._entries = {entry.key: entry for entry in entries}
        self._used: set[str] = set()
        self._remarks: list[Remark] = []
        self._secrets: dict[str, str] = {}

    def read(self, name: str) -> Mm2Reading:
        aliases = _list(self._value("clusters") or "")
        if not aliases:
            self._problem("clusters", "no clusters are named")
        pairs = [
            (source, target)
            for source in aliases
            for target in aliases
            if source != target and self._flow(source, target, "enabled", "false") == "true"
        ]
        if aliases and not pairs:
            self._problem("clusters", "no flow is enabled (`A->B.enabled = true`)")
        document = {
            "name": name,
            "clusters": [self._cluster(alias) for alias in aliases],
            "links": [self._link(source, target) for source, target in pairs],
        }
        self._note_the_rest(aliases)
        topology = None
        if not any(remark.is_problem for remark in self._remarks):
            topology = self._validated(document)
        if any(remark.is_problem for remark in self._remarks):
            topology = None
        return Mm2Reading(topology, sorted(self._remarks), self._secrets)

    # -- clusters ---------------------------------------------------------------------------------

    def _cluster(self, alias: str) -> dict[str, Any]:
        bootstrap = self._of_cluster(alias, "bootstrap.servers")
        if bootstrap is None:
            self._problem(f"{alias}.bootstrap.servers", "is missing")
        addresses = ",".join(_list(bootstrap or ""))
        return {"name": alias, "external": addresses, "security": self._security(alias)}

    def _security(self, alias: str) -> dict[str, Any]:
        protocol = self._of_cluster(alias, "security.protocol") or "PLAINTEXT"
        security: dict[str, Any] = {"protocol": protocol}
        if protocol.startswith("SASL"):
            security["mechanism"] = self._of_cluster(alias, "sasl.mechanism")
            jaas = self._of_cluster(alias, "sasl.jaas.config") or ""
            found = {
                name: re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
                for name, quoted, plain in _JAAS_FIELD.findall(jaas)
            }
            if "username" in found and "password" in found:
                place = self._secret(alias, "PASSWORD", found["password"])
                security |= {"username": found["username"], "password": place}
            else:
                self._problem(f"{alias}.sasl.jaas.config", "no username and password in it")
        if protocol.endswith("SSL"):
            for store, key in (("truststore", "ca_file"), ("keystore", "certificate_file")):
                location = self._of_cluster(alias, f"ssl.{store}.location")
                if location is None:
                    continue
                if (self._of_cluster(alias, f"ssl.{store}.type") or "JKS").upper() != "PEM":
                    self._problem(
                        f"{alias}.ssl.{store}.location",
                        f"only PEM files are read; export it and say ssl.{store}.type=PEM",
                    )
                security[key] = location
            key_password = self._of_cluster(alias, "ssl.key.password")
            if key_password is not None and "certificate_file" in security:
                security["key_password"] = self._secret(alias, "KEY_PASSWORD", key_password)
            algorithm = self._of_cluster(alias, "ssl.endpoint.identification.algorithm")
            security["check_hostname"] = algorithm != ""
        return security

    def _secret(self, alias: str, kind: str, secret: str) -> dict[str, str]:
        """Hand a secret out; the place that the topology names instead."""
        name = re.sub(r"[^A-Z0-9]", "_", alias.upper())
        variable = f"HELIOGRAPH_MM2_{name}_{kind}"
        while variable in self._secrets:  # of an alias that only other letters tell apart
            variable += "_"
        self._secrets[variable] = secret
        return {"env": variable}

    # -- flows ------------------------------------------------------------------------------------

    def _link(self, source: str, target: str) -> dict[str, Any]:
        def value(key: str, default: str) -> str:
            return self._flow(source, target, key, default)

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
                "exclude": _list(value("topics.exclude", ",".join(TOPICS_EXCLUDE))),
            },
            "groups": {
                "sync": switch("sync.group.offsets.enabled", "false"),
                "include": _list(value("groups", ".*")),
                "exclude": _list(value("groups.exclude", ",".join(GROUPS_EXCLUDE))),
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
        given = self._flow(source, target, "replication.policy.class", "DefaultReplicationPolicy")
        separator = self._flow(source, target, "replication.policy.separator", ".")
        policy = POLICIES.get(given.removeprefix(_MIRROR_CLASSES))
        if policy is None:
            self._problem(
                self._flow_key(source, target, "replication.policy.class"),
                f"{given} cannot be loaded; Default- and IdentityReplicationPolicy are known",
            )
        if separator != "." and policy == "prefixed":
            self._problem(
                self._flow_key(source, target, "replication.policy.separator"),
                f"copies are named with '.', not {separator!r}",
            )
        return policy or "prefixed"

    def _start(self, source: str, target: str) -> str:
        keys = (
            self._flow_key(source, target, "source.consumer.auto.offset.reset"),
            self._flow_key(source, target, "consumer.auto.offset.reset"),
            f"{source}.consumer.auto.offset.reset",
        )
        for key in keys:
            given = self._value(key)
            if given in ("earliest", "latest"):
                return given
        return "earliest"

    def _number(self, source: str, target: str, key: str, default: int) -> int:
        given = self._flow(source, target, key, str(default))
        if not re.fullmatch(r"-?\d+", given):
            self._problem(self._flow_key(source, target, key), f"{given!r} is no number")
            return default
        return int(given)

    # -- keys -------------------------------------------------------------------------------------

    def _value(self, key: str) -> str | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._used.add(key)
        if re.search(r"\$\{[^}]*:", entry.value):
            self._problem(key, "config providers (`${...}`) are not asked")
        return entry.value.strip()

    def _flow_key(self, source: str, target: str, key: str) -> str:
        own = f"{source}->{target}.{key}"
        return own if own in self._entries else key

    def _flow(self, source: str, target: str, key: str, default: str) -> str:
        if key == "enabled":
            return self._value(f"{source}->{target}.enabled") or default
        found = self._value(self._flow_key(source, target, key))
        return default if found is None else found

    def _of_cluster(self, alias: str, key: str) -> str | None:
        own = self._value(f"{alias}.{key}")
        return own if own is not None or key == "bootstrap.servers" else self._value(key)

    def _problem(self, key: str, text: str) -> None:
        line = self._entries[key].line if key in self._entries else 1
        remark = Remark(line, key, text, is_problem=True)
        if remark not in self._remarks:
            self._remarks.append(remark)

    def _note_the_rest(self, aliases: Iterable[str]) -> None:
        for key, entry in self._entries.items():
            if key in self._used:
                continue
            flow = _FLOW_KEY.fullmatch(key)
            bare = flow.group(3) if flow else key
            for alias in aliases:
                bare = bare.removeprefix(f"{alias}.")
            if bare in ALWAYS:
                text = f"not needed: {ALWAYS[bare]}"
            elif bare in _FLOW_KEYS or bare in _CLUSTER_KEYS:
                text = "has no effect here: another key, a flow or a cluster is missing for it"
            elif bare.endswith(("topic.filter.class", "group.filter.class")):
                self._problem(key, "filter classes cannot be loaded; use patterns")
                continue
            elif bare.endswith("isolation.level"):
                text = "sources are always read with read_committed"
            else:
                text = "not honoured: it has no counterpart"
            self._remarks.append(Remark(entry.line, key, text))

    def _validated(self, document: dict[str, Any]) -> Topology | None:
        try:
            topology = Topology.model_validate(document)
        except ValidationError as error:
            for each in error.errors():
                where = ".".join(str(part) for part in each["loc"])
                self._problem("clusters", f"{where}: {each['msg']}")
            return None
        parts = Parts(
            clusters=dict(enumerate(topology.clusters)),
            links=dict(enumerate(topology.links)),
            cluster_names=frozenset(each.name for each in topology.clusters),
        )
        for finding in check_rules(parts):
            self._problem("clusters", f"expected {finding.expected}")
        return topology


def _list(text: str) -> list[str]:
    return [part for part in re.split(r"\s*,\s*", text.strip()) if part]
