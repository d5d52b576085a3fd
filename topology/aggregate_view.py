"""An aggregate cluster of a deployment, as the readers on Spark are told of it."""

from __future__ import annotations

from spark_global.links import MirrorLink
from spark_global.views import Aggregate
from topology.deployment import Deployment


def aggregate_view(deployment: Deployment, name: str) -> Aggregate:
    """The cluster of that name with every link that feeds it. Raises KeyError."""
    return Aggregate(
        name=name,
        bootstrap=deployment.cluster(name).bootstrap,
        links=tuple(
            MirrorLink(
                name=link.name,
                source=link.source,
                datacenter=deployment.cluster(link.source).datacenter,
                bootstrap=deployment.cluster(link.source).bootstrap,
            )
            for link in deployment.links
            if link.target == name
        ),
    )
