"""The addresses that Prometheus scrapes, as a file for `file_sd_configs`. Pure.

The labels `namespace`, `strimzi_io_cluster`, `kubernetes_pod_name` and `container` are those by
which Strimzi's dashboards choose; with them these show our brokers and mirrors unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from local_cluster.http_security.addresses import url_of
from topology.model.scalars import ANY_ADDRESSES, LOOPBACK_NAMES

if TYPE_CHECKING:
    from topology.deployment.deployment import Daemon, Deployment

_CLUSTER_KEYS: Final = {"broker": "cluster", "mirror": "target_alias", "aggregator": "aggregate"}
"""Role -> key of the cluster's name in the settings of its process."""


class Process(NamedTuple):
    """One process with an address."""

    url: str
    role: Literal["broker", "mirror", "aggregator", "supervisor"]
    cluster: str | None = None
    broker_id: int | None = None


def scrape_targets(
    status: Mapping[str, Any], elsewhere: Iterable[Process] = ()
) -> list[dict[str, Any]]:
    """Return the targets of a status document, and of the processes of other hosts.

    A process without an address is left out.
    """
    datacenters = {each["name"]: each["datacenter"] for each in status["clusters"]}
    numbers = count()
    return [
        {
            "targets": [each.url.partition("://")[2]],
            "labels": {
                "deployment": status["name"],
                **_labels(each, status["name"], datacenters, numbers),
            },
        }
        for each in (*_processes(status), *elsewhere)
    ]


def processes_elsewhere(deployment: Deployment) -> Iterator[Process]:
    """Yield the processes of other hosts that have a fixed address which other hosts reach."""
    for daemon in deployment.elsewhere:
        if daemon.role == "zookeeper":
            continue
        (text,) = daemon.files.values()
        settings = json.loads(text)
        if (url := _url(daemon, settings)) is not None:
            cluster = settings[_CLUSTER_KEYS[daemon.role]]
            yield Process(url, daemon.role, cluster, settings.get("broker_id"))
    ports = deployment.supervisors
    for host in dict.fromkeys(each.host for each in deployment.elsewhere):
        if ports is not None and (url := ports.url(host)) is not None:
            yield Process(url, "supervisor")


def _url(daemon: Daemon, settings: Mapping[str, Any]) -> str | None:
    host, port = settings["http_host"], settings["http_port"]
    if host in ANY_ADDRESSES:
        host = daemon.host
    return url_of("http", host, port) if port and host not in LOOPBACK_NAMES else None


def _processes(status: Mapping[str, Any]) -> Iterator[Process]:
    for cluster in status["clusters"]:
        for broker in cluster["brokers"] or ():
            if broker["url"] is not None:
                yield Process(broker["url"], "broker", cluster["name"], broker["id"])
    if (url := (status["supervisor"] or {}).get("url")) is not None:
        yield Process(url, "supervisor")
    for each in status["mirrors"]:
        if each["url"] is not None:
            yield Process(each["url"], "mirror", each["cluster"])
    for each in status["aggregators"]:
        if each["url"] is not None:
            yield Process(each["url"], "aggregator", each["cluster"])


def _labels(
    process: Process, deployment: str, datacenters: Mapping[str, str], numbers: Iterator[int]
) -> dict[str, str]:
    """Return the labels of a process; `numbers` tells mirror workers apart."""
    role, cluster = process.role, process.cluster
    if cluster is None:
        return {"role": role}
    labels: dict[str, str] = {"role": role, "cluster": cluster, "datacenter": datacenters[cluster]}
    if role == "broker":
        labels["broker"] = str(process.broker_id)
        labels["namespace"] = deployment
        labels["strimzi_io_cluster"] = cluster
        labels["kubernetes_pod_name"] = f"{cluster}-kafka-{process.broker_id}"
        labels["container"] = "kafka"
    elif role == "mirror":
        labels["namespace"] = deployment
        labels["strimzi_io_kind"] = "KafkaMirrorMaker2"
        labels["strimzi_io_cluster"] = cluster
        labels["kubernetes_pod_name"] = f"{cluster}-mirrormaker2-{next(numbers)}"
    return labels
