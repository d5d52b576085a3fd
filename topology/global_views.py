"""The aggregate of a deployment as Spark's readers are told of it. Imports Spark: load it late."""

from __future__ import annotations

from spark_global.links import MirrorLink
from spark_global.views import Aggregate
from topology.deployment import Deployment


def aggregate_of(deployment: Deployment, cluster: str) -> Aggregate:
    """The aggregate cluster of that name, with every link into it. Raises KeyError."""
    links = (
        MirrorLink(
            name=link.name,
            source=link.source,
            datacenter=deployment.cluster(link.source).datacenter,
            bootstrap=deployment.cluster(link.source).bootstrap,
        )
        for link in deployment.links
        if link.target == cluster
    )
    bootstrap = deployment.cluster(cluster).bootstrap
    return Aggregate(name=cluster, bootstrap=bootstrap, links=tuple(links))
