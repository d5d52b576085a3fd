"""A whole topology file, and its JSON Schema."""

from __future__ import annotations

import json
from typing import Annotated, Final

from pydantic import Field

from local_cluster.log_format import LogFormat
from topology.model.cluster import Cluster
from topology.model.http_security import HttpSecurity
from topology.model.link import Link
from topology.model.scalars import Entry, Name
from topology.model.supervisors import Supervisors
from topology.model.zookeeper import DEFAULT_ZOOKEEPER, ZooKeeperChroot, ZooKeeperProcess

SCHEMA_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class Topology(Entry):
    """A deployment: clusters, and the links between them."""

    name: Name
    """Name of the deployment and of its state directory."""
    zookeepers: list[ZooKeeperProcess] = []
    """Embedded ZooKeeper servers. `embedded` in a cluster means the first one. Default: one server
    on 127.0.0.1:2181."""
    clusters: Annotated[list[Cluster], Field(min_length=1)]
    """Clusters of the deployment."""
    http_security: HttpSecurity = HttpSecurity()
    """Security of all HTTP ports; default: open, and on loopback addresses only."""
    supervisors: Supervisors | None = None
    """HTTP ports of the supervisors, by which `plan`, `status` and `down` speak of every host;
    default: none."""
    log_format: LogFormat = "text"
    """What brokers, mirrors and aggregators log: `text`, or `json`, one object per line."""
    links: list[Link] = []
    """Links between the clusters; each copies topics in one direction."""

    def cluster(self, name: str) -> Cluster:
        """Return the cluster with this name. Raises KeyError."""
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        raise KeyError(name)

    def is_probed(self, link: Link) -> bool:
        """Return whether the target's aggregator probes a link. Raises KeyError."""
        return self.cluster(link.target).probes(link, self.cluster(link.source))

    @property
    def effective_zookeepers(self) -> list[ZooKeeperProcess]:
        """Every embedded server that a cluster can refer to."""
        return self.zookeepers or [DEFAULT_ZOOKEEPER]

    def zookeeper_server(self, cluster: Cluster) -> ZooKeeperProcess | None:
        """Return the embedded server that a cluster uses, if it uses one."""
        place, servers = cluster.zookeeper, self.effective_zookeepers
        if isinstance(place, ZooKeeperChroot):
            return next(each for each in servers if each.name == place.embedded)
        return servers[0] if place == "embedded" else None


def schema_text() -> str:
    """Return the JSON Schema of the topology file, for editors, with a final newline.

    `heliograph schema > configs/topology.schema.json` writes the committed copy.
    """
    schema = Topology.model_json_schema(mode="validation")
    schema = {"$schema": SCHEMA_DIALECT, **schema, "title": "Heliograph topology"}
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"
