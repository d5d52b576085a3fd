"""The addresses that Prometheus scrapes, as a file for `file_sd_configs`. Pure.

The labels `namespace`, `strimzi_io_cluster`, `kubernetes_pod_name` and `container` are those by
which Strimzi's dashboards choose; with them these show our brokers and mirrors unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any


def scrape_targets(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the targets of a status document; a process without an address is left out."""
    return [
        {
            "targets": [url.partition("://")[2]],
            "labels": {"deployment": status["name"], **labels},
        }
        for url, labels in _processes(status)
        if url is not None
    ]


def _processes(status: Mapping[str, Any]) -> Iterator[tuple[str | None, dict[str, str]]]:
    datacenters = {each["name"]: each["datacenter"] for each in status["clusters"]}
    for cluster in status["clusters"]:
        for broker in cluster["brokers"] or ():
            yield (
                broker["url"],
                {
                    "role": "broker",
                    "cluster": cluster["name"],
                    "datacenter": cluster["datacenter"],
                    "broker": str(broker["id"]),
                    "namespace": status["name"],
                    "strimzi_io_cluster": cluster["name"],
                    "kubernetes_pod_name": f"{cluster['name']}-kafka-{broker['id']}",
                    "container": "kafka",
                },
            )
    yield (status["supervisor"] or {}).get("url"), {"role": "supervisor"}
    numbers = count()
    for key, role in (("mirrors", "mirror"), ("aggregators", "aggregator")):
        for each in status[key]:
            labels = {"role": role, "cluster": each["cluster"]}
            labels["datacenter"] = datacenters[each["cluster"]]
            if role == "mirror":
                labels["namespace"] = status["name"]
                labels["strimzi_io_kind"] = "KafkaMirrorMaker2"
                labels["strimzi_io_cluster"] = each["cluster"]
                labels["kubernetes_pod_name"] = f"{each['cluster']}-mirrormaker2-{next(numbers)}"
            yield each["url"], labels
