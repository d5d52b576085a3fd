"""The topology file as typed objects.

Guarantees: unknown keys are errors; every field carries the sentence that editors show, because
the published JSON Schema is made from these classes.
Not here: positions in the file (load.py), rules between several entries (checks.py, copy_loops.py),
and how an entry becomes a process (render.py).
"""

from __future__ import annotations

from topology.model.cluster import Broker, BrokerCount, Cluster, PlacedBroker
from topology.model.link import Link, LinkNames, TopicFilter
from topology.model.topology import Topology
from topology.model.zookeeper import ZooKeeperChroot, ZooKeeperProcess

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
    "ZooKeeperProcess",
]
