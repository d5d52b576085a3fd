"""Strimzi's KafkaMirrorMaker2 resource as a topology of external clusters and links. Pure.

The resource wraps keys of MirrorMaker 2, so it is turned into those and read by `mm2_properties`.
Both forms are known: `target` with `mirrors[].source` (kafka.strimzi.io/v1), and `clusters` with
`connectCluster` (v1beta2). Secrets stay references: a password is an environment variable, a
certificate a file, and a remark says which Secret of Kubernetes belongs there.

Source: Strimzi's proposal 115 and its examples of mirror-maker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from topology.file.mm2_keys import ALWAYS
from topology.file.mm2_properties import Mm2Reading, read_entries
from topology.file.property_keys import Property, Remark
from topology.file.yaml_document import NotYaml, YamlDocument
from topology.problems import Location, key_text

KIND: Final = "KafkaMirrorMaker2"
PATTERNS: Final = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
}
CONNECTORS: Final = ("sourceConnector", "checkpointConnector", "heartbeatConnector")
WRITERS: Final = {"checkpointConnector": "checkpoints", "heartbeatConnector": "heartbeats"}
"""Connectors that write topics of MirrorMaker 2."""
SASL: Final = {
    "scram-sha-256": "SCRAM-SHA-256",
    "scram-sha-512": "SCRAM-SHA-512",
    "plain": "PLAIN",
}
STORAGE_TOPICS: Final = frozenset(
    {"groupId", "configStorageTopic", "offsetStorageTopic", "statusStorageTopic"}
)
NO_COUNTERPART: Final = "has no effect: there is no counterpart"
NO_CONNECT: Final = "not needed: mirror workers keep their state beside the copies"


def read_strimzi(text: str) -> Mm2Reading:
    """Return the topology of a resource, and remarks on keys without effect."""
    try:
        document = YamlDocument(text)
    except NotYaml as error:
        problem = error.problem
        return _refused(problem.line, "resource", f"expected {problem.expected}")
    root = document.value
    if not isinstance(root, Mapping) or root.get("kind") != KIND:
        return _refused(1, "kind", f"expected one resource of kind {KIND}")
    reader = _Resource(document)
    reader.read(root)
    metadata = root.get("metadata")
    name = str(metadata.get("name", "mm2")) if isinstance(metadata, Mapping) else "mm2"
    reading = read_entries(reader.entries, re.sub(r"[^A-Za-z0-9_-]", "-", name))
    # Remarks of MirrorMaker 2's keys speak of the keys of this file.
    renamed = [replace(each, key=reader.names.get(each.key, each.key)) for each in reading.remarks]
    remarks = sorted({*renamed, *reader.remarks})
    is_refused = any(each.is_problem for each in remarks)
    return Mm2Reading(None if is_refused else reading.topology, remarks)


def _refused(line: int, key: str, text: str) -> Mm2Reading:
    return Mm2Reading(None, [Remark(line, key, text, is_problem=True)])


class _Resource:
    """Turns a resource into MirrorMaker 2's entries, and remembers where each of them is."""

    def __init__(self, document: YamlDocument) -> None:
        self._document = document
        self.entries: list[Property] = []
        self.names: dict[str, str] = {}
        """Key of an entry to its key in the resource."""
        self.remarks: list[Remark] = []

    def read(self, root: Mapping[str, Any]) -> None:
        spec = _mapping(root.get("spec"))
        mirrors = _list(spec.get("mirrors"))
        clusters: dict[str, tuple[Location, Mapping[str, Any]]] = {}
        target = _mapping(spec.get("target"))
        places: list[tuple[Location, Any]] = [(("spec", "target"), target)] if target else []
        places += [
            (("spec", "clusters", i), each) for i, each in enumerate(_list(spec.get("clusters")))
        ]
        places += [
            (("spec", "mirrors", i, "source"), _mapping(each).get("source"))
            for i, each in enumerate(mirrors)
        ]
        for at, each in places:
            alias = _mapping(each).get("alias")
            if alias is not None:
                clusters.setdefault(str(alias), (at, _mapping(each)))
        self._add(("spec", "mirrors"), "clusters", ", ".join(clusters))
        for alias, (at, cluster) in clusters.items():
            self._cluster(alias, at, cluster)
        for index, each in enumerate(mirrors):
            mirror, here = _mapping(each), ("spec", "mirrors", index)
            source = mirror.get("sourceCluster", _mapping(mirror.get("source")).get("alias"))
            sink = mirror.get("targetCluster", target.get("alias"))
            self._mirror(f"{source}->{sink}", here, mirror)
        self._others(("spec",), spec, {"clusters", "target", "mirrors", "connectCluster"})

    def _cluster(self, alias: str, here: Location, cluster: Mapping[str, Any]) -> None:
        self._add((*here, "bootstrapServers"), f"{alias}.bootstrap.servers", cluster)
        authentication = _mapping(cluster.get("authentication"))
        kind = str(authentication.get("type", "")) if authentication else ""
        has_tls = "tls" in cluster
        at = (*here, "authentication")
        if kind in SASL:
            self._sasl(alias, at, authentication, SASL[kind])
        elif kind == "tls":
            self._certificate(alias, at, _mapping(authentication.get("certificateAndKey")))
        elif kind:
            self._remark((*at, "type"), f"{kind} is not supported", is_problem=True)
        protocol = ("SASL_" if kind in SASL else "") + ("SSL" if has_tls else "PLAINTEXT")
        self._add((*here, "tls"), f"{alias}.security.protocol", protocol)
        trusted = _list(_mapping(cluster.get("tls")).get("trustedCertificates"))
        if trusted:
            file = f"{alias}-ca.pem"
            names = ", ".join(_secret_key(_mapping(each)) for each in trusted)
            self._pem(alias, (*here, "tls", "trustedCertificates"), "truststore", file)
            self._remark((*here, "tls", "trustedCertificates"), f"write {names} to {file}")
        self._config(f"{alias}.", (*here, "config"), cluster.get("config"))
        known = {"alias", "bootstrapServers", "tls", "authentication", "config"}
        self._others(here, cluster, known)

    def _sasl(
        self, alias: str, here: Location, authentication: Mapping[str, Any], mechanism: str
    ) -> None:
        secret = _mapping(authentication.get("passwordSecret"))
        user = str(authentication.get("username", "")).replace("\\", "\\\\").replace('"', '\\"')
        self._add(here, f"{alias}.sasl.mechanism", mechanism)
        # The password is in a Secret: the entry only makes the topology name its variable.
        jaas = f'required username="{user}" password="in-a-secret";'
        self._add(here, f"{alias}.sasl.jaas.config", jaas)
        where = f"{secret.get('password')} of Secret {secret.get('secretName')}"
        self._remark((*here, "passwordSecret"), f"the variable of {alias} holds {where}")

    def _certificate(self, alias: str, here: Location, pair: Mapping[str, Any]) -> None:
        file = f"{alias}-client.pem"
        self._pem(alias, (*here, "certificateAndKey"), "keystore", file)
        key = f"{pair.get('key')} of Secret {pair.get('secretName')}"
        self._remark((*here, "certificateAndKey"), f"write {_secret_key(pair)} and {key} to {file}")

    def _pem(self, alias: str, here: Location, store: str, file: str) -> None:
        self._add(here, f"{alias}.ssl.{store}.location", file)
        self._add(here, f"{alias}.ssl.{store}.type", "PEM")

    def _mirror(self, flow: str, here: Location, mirror: Mapping[str, Any]) -> None:
        self._add(here, f"{flow}.enabled", "true")
        for name, key in PATTERNS.items():
            if name in mirror:
                self._add((*here, name), f"{flow}.{key}", mirror)
        # Strimzi starts only the connectors that the resource names.
        for name, key in WRITERS.items():
            self._add((*here, name), f"{flow}.emit.{key}.enabled", str(name in mirror).lower())
        for name in CONNECTORS:
            connector = _mapping(mirror.get(name))
            self._config(f"{flow}.", (*here, name, "config"), connector.get("config"))
            if "tasksMax" in connector:
                self._remark((*here, name, "tasksMax"), f"not needed: {ALWAYS['tasks.max']}")
            self._others((*here, name), connector, {"config", "tasksMax"})
        known = {"source", "sourceCluster", "targetCluster", *PATTERNS, *CONNECTORS}
        self._others(here, mirror, known)

    def _config(self, prefix: str, here: Location, config: Any) -> None:
        for name in _mapping(config):
            self._add((*here, name), f"{prefix}{name}", config)

    def _others(self, here: Location, entry: Mapping[str, Any], known: set[str]) -> None:
        for name in entry:
            if name in STORAGE_TOPICS:
                self._remark((*here, name), NO_CONNECT)
            elif name not in known:
                self._remark((*here, name), NO_COUNTERPART)

    def _add(self, here: Location, key: str, value: Any) -> None:
        """Add an entry. `value` is its text, or the mapping around the last key of `here`."""
        if isinstance(value, Mapping):
            found = value.get(here[-1], "")
            value = str(found).lower() if isinstance(found, bool) else str(found)
        line, _ = self._document.position(here, at_key=True)
        self.entries.append(Property(line, key, value))
        self.names[key] = key_text(here)

    def _remark(self, here: Location, text: str, *, is_problem: bool = False) -> None:
        line, _ = self._document.position(here, at_key=True)
        self.remarks.append(Remark(line, key_text(here), text, is_problem=is_problem))


def _secret_key(entry: Mapping[str, Any]) -> str:
    key = entry.get("certificate", entry.get("pattern"))
    return f"{key} of Secret {entry.get('secretName')}"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
