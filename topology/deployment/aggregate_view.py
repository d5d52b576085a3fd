"""An aggregate cluster of a deployment, as the settings of Spark's readers."""

from __future__ import annotations

from spark_global.links import MirrorLink
from spark_global.views import Aggregate
from topology.deployment.deployment import Deployment


def aggregate_view(deployment: Deployment, name: str) -> Aggregate:
    """Return the cluster with this name and every link into it. Raises KeyError."""
    cluster = deployment.cluster(name)
    sources = {link.source: deployment.cluster(link.source) for link in deployment.links}
    return Aggregate(
        name=name,
        bootstrap=cluster.bootstrap,
        security=cluster.spark_security or cluster.security,
        links=tuple(
            MirrorLink(
                name=link.name,
                source=link.source,
                datacenter=sources[link.source].datacenter,
                bootstrap=sources[link.source].bootstrap,
                security=sources[link.source].spark_security or sources[link.source].security,
            )
            for link in deployment.links
            if link.target == name
        ),
    )
