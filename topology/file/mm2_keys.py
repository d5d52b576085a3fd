"""The keys of MirrorMaker 2's `mm2.properties`: lookup by flow and cluster, and remarks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from topology.file.property_keys import PropertyKeys

_FLOW_KEY: Final = re.compile(r"([^\s.]+)->([^\s.]+)\.(.+)")

ALWAYS: Final = {
    "exactly.once.source.support": "copies are always exactly once",
    "refresh.topics.enabled": "topics are discovered every second",
    "refresh.topics.interval.seconds": "topics are discovered every second",
    "refresh.groups.enabled": "groups are discovered every second",
    "refresh.groups.interval.seconds": "groups are discovered every second",
    "sync.group.offsets.interval.seconds": "groups are synced every second",
    "emit.checkpoints.interval.seconds": "checkpoints are written every second",
    "emit.heartbeats.interval.seconds": "heartbeats are written every second",
    "sync.topic.configs.interval.seconds": "configs are compared every five seconds",
    "sync.topic.acls.interval.seconds": "ACLs are compared every five seconds",
    "offset.lag.max": "translation is exact, so there is no lag to allow",
    "tasks.max": "workers share partitions among themselves",
    "dedicated.mode.enable.internal.rest": "workers find each other through the target cluster",
    "use.incremental.alter.configs": "configs are always altered one by one",
}
"""Keys that need no counterpart, because there is nothing to configure."""
FLOW_KEYS: Final = frozenset(
    {
        "enabled", "topics", "topics.exclude", "groups", "groups.exclude", "replication.factor",
        "replication.policy.class", "replication.policy.separator", "sync.group.offsets.enabled",
        "sync.topic.configs.enabled", "sync.topic.acls.enabled", "config.properties.exclude",
        "emit.heartbeats.enabled", "emit.checkpoints.enabled", "emit.offset-syncs.enabled",
        "offset-syncs.topic.location", "consumer.auto.offset.reset",
        "source.consumer.auto.offset.reset",
    }
)  # fmt: skip
CLUSTER_KEYS: Final = frozenset(
    {
        "bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config",
        "sasl.kerberos.service.name",
        "ssl.truststore.type", "ssl.truststore.location", "ssl.keystore.type",
        "ssl.keystore.location", "ssl.key.password", "ssl.endpoint.identification.algorithm",
        "consumer.auto.offset.reset",
    }
)  # fmt: skip


class Mm2Keys(PropertyKeys):
    """The entries of a file of MirrorMaker 2.

    A key of a flow holds as `A->B.key`, else as `key`. A key of a cluster holds as `A.key`, else as
    `key`.
    """

    def flow_key(self, source: str, target: str, key: str) -> str:
        """Return the key as the file has it: `A->B.key`, or else `key`."""
        own = f"{source}->{target}.{key}"
        return own if own in self._entries else key

    def of_flow(self, source: str, target: str, key: str, default: str) -> str:
        """Return the value of a key for a flow. `enabled` holds only as `A->B.enabled`."""
        if key == "enabled":
            return self.value(f"{source}->{target}.enabled") or default
        found = self.value(self.flow_key(source, target, key))
        return default if found is None else found

    def of_cluster(self, alias: str, key: str) -> str | None:
        """Return the value of a key for a cluster. `bootstrap.servers` holds only as `A.key`."""
        own = self.value(f"{alias}.{key}")
        return own if own is not None or key == "bootstrap.servers" else self.value(key)

    def add_unread(self, aliases: Iterable[str]) -> None:
        """Add a remark for every key that was not read."""
        for key in self.unread():
            flow = _FLOW_KEY.fullmatch(key)
            bare = flow.group(3) if flow else key
            for alias in aliases:
                bare = bare.removeprefix(f"{alias}.")
            if bare in ALWAYS:
                text = f"not needed: {ALWAYS[bare]}"
            elif bare in FLOW_KEYS or bare in CLUSTER_KEYS:
                text = "has no effect: the key, flow or cluster that it depends on is missing"
            elif bare.endswith(("topic.filter.class", "group.filter.class")):
                self.problem(key, "filter classes cannot be loaded; use patterns")
                continue
            elif bare.endswith("isolation.level"):
                text = "sources are always read with read_committed"
            else:
                text = "has no effect: there is no counterpart"
            self.remark(key, text)
