"""The names that Confluent's JMX exporter rules give a broker's metrics. Pure.

Source: shared-assets/jmx-exporter/kafka_broker.yml of confluentinc/jmx-monitoring-stacks, November
2025. These rules keep `PerSec` and `Percent` in names, write labels in lower case, and put the type
of a quota into the name. What they name as the usual rules do is not in the table.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Final

from local_cluster.prometheus_text import Family, Head, Sample


class Names(enum.StrEnum):
    """What a scrape calls the metrics: `?names=` of /metrics."""

    usual = "usual"
    confluent = "confluent"


_TOPICS: Final = "kafka_server_brokertopicmetrics_"
_REPLICAS: Final = "kafka_server_replicamanager_"
_SOCKETS: Final = "kafka_server_socket_server_metrics_"
_HANDLERS: Final = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle"
_UNCLEAN: Final = "kafka_controller_controllerstats_uncleanleaderelections"
_PROCESSORS: Final = "kafka_network_socketserver_networkprocessoravgidle"
_REQUESTS: Final = "kafka_network_requestmetrics_requests"
_QUOTA: Final = "kafka_server_quota_"

RENAMED: Final[Mapping[str, str]] = {
    **{
        f"{_TOPICS}{name}_total": f"{_TOPICS}{name}persec"
        for name in (
            *("messagesin", "bytesin", "bytesout", "replicationbytesin", "replicationbytesout"),
            *("totalproducerequests", "failedproducerequests"),
            *("totalfetchrequests", "failedfetchrequests"),
        )
    },
    **{
        f"{_REPLICAS}{name}_total": f"{_REPLICAS}{name}persec"
        for name in ("isrshrinks", "isrexpands", "failedisrupdates")
    },
    **{
        f"{_SOCKETS}{name}": f"kafka_server_socketservermetrics_{name}"
        for name in (
            *("connection_count", "connection_creation_total", "connection_close_total"),
            *("successful_authentication_total", "failed_authentication_total"),
            "memorypooldepletedtime_total",
        )
    },
    f"{_UNCLEAN}_total": f"{_UNCLEAN}persec",
    f"{_REQUESTS}_total": f"{_REQUESTS}persec",
    f"{_HANDLERS}_percent": f"{_HANDLERS}percent_oneminuterate",
    f"{_PROCESSORS}_percent": f"{_PROCESSORS}percent",
}
"""The usual name -> Confluent's."""
LABELS: Final[Mapping[str, str]] = {
    "networkProcessor": "network_processor",
    "delayedOperation": "delayedoperation",
    "logDirectory": "logdirectory",
    "clientId": "client_id",
}
"""Labels of Kafka's metrics: the usual name -> Confluent's."""
QUOTAS_IN_NAMES: Final = ("Produce", "Fetch", "Request")
"""Types of quotas that Confluent's rules know."""


def named_head(head: Head, names: Names) -> Head:
    """Return the head of a metric under the wanted name."""
    if names is Names.usual:
        return head
    return head._replace(name=RENAMED.get(head.name, head.name))


def named_lines(lines: str, head: Head, names: Names) -> str:
    """Return sample lines of a metric of topics or requests under the wanted name.

    Their labels have only names of topics, APIs and versions, so that no value has the metric's
    name before a brace or a space.
    """
    name = named_head(head, names).name
    if name == head.name:
        return lines
    for after in ("{", " "):
        lines = lines.replace(f"{head.name}{after}", f"{name}{after}")
    return lines


def named_families(family: Family, names: Names) -> Iterator[Family]:
    """Yield a metric of the broker under the wanted names: one, or one for each type of quota."""
    head, samples = family
    if names is Names.usual or not head.name.startswith("kafka_"):
        yield family
        return
    if head.name.startswith(_QUOTA):
        what = head.name.removeprefix(_QUOTA)
        for kind in QUOTAS_IN_NAMES:
            own = tuple(each for each in samples if each.labels["resource"] == kind)
            if own:
                of_kind = head._replace(name=f"kafka_server_{kind.lower()}_{what}")
                yield Family(of_kind, tuple(_renamed(each, without="resource") for each in own))
        samples = tuple(each for each in samples if each.labels["resource"] not in QUOTAS_IN_NAMES)
    yield Family(named_head(head, names), tuple(map(_renamed, samples)))


def _renamed(sample: Sample, without: str = "") -> Sample:
    labels = {
        LABELS.get(name, name): value for name, value in sample.labels.items() if name != without
    }
    return Sample(sample.value, labels)
