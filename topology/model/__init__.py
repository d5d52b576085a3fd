"""The topology file as pydantic models.

Reading order: `topology`, `cluster`, `link`, `security` (of connections), `listener_security`,
`http_security`, `supervisors`, `rights`, `quotas`, `secret_places`, `zookeeper`, and `scalars`
(names, addresses, patterns).

Guarantees: an unknown key is an error. The docstring of a field is the description that editors
show, because the published JSON Schema is made from these classes.
Not here: positions in the file (`topology/file/`), rules between several entries
(`topology/rules/`), the daemons of an entry (`topology/deployment/`).
"""

from __future__ import annotations

from topology.model.cluster import Broker, BrokerCount, Cluster, PlacedBroker
from topology.model.link import Link, LinkNames, TopicFilter
from topology.model.topology import Topology
from topology.model.zookeeper import ZooKeeperChroot, ZooKeeperNode, ZooKeeperProcess

__all__ = [
    "Broker",
    "BrokerCount",
    "Cluster",
    "Link",
    "LinkNames",
    "PlacedBroker",
    "TopicFilter",
    "Topology",
    "ZooKeeperChroot",
    "ZooKeeperNode",
    "ZooKeeperProcess",
]
