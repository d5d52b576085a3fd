"""Metrics of client quotas, as the JMX exporter's usual rules name Kafka's. Pure.

Of clients that have a quota and used it within the last hour: what they did, and how long they had
to wait on average over the last eleven seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from local_cluster.prometheus_text import Family, Sample, counter, gauge
from local_cluster.quotas.client_meters import ClientMeters, Meter
from local_cluster.quotas.client_quotas import ClientQuotas
from local_cluster.quotas.limits import NOBODY, Share
from local_cluster.quotas.windowed_rate import WindowedRate

PREFIX: Final = "kafka_server_quota_"
PRODUCE: Final = "Produce"
FETCH: Final = "Fetch"
REQUEST: Final = "Request"
MUTATION: Final = "ControllerMutation"


def quota_families(quotas: ClientQuotas, now_ms: int) -> Iterator[Family]:
    """Yield the metrics of all quotas; `now_ms` is monotonic."""
    produce, fetch, request = quotas.produce.meters, quotas.fetch.meters, quotas.request.meters
    yield gauge(
        f"{PREFIX}byte_rate",
        "Bytes per second of clients with a quota.",
        *_rates(PRODUCE, produce, now_ms),
        *_rates(FETCH, fetch, now_ms),
    )
    yield gauge(
        f"{PREFIX}request_time",
        "Time of handlers for clients with a quota, in percent of the event loop.",
        *_rates(REQUEST, request, now_ms),
    )
    yield gauge(
        f"{PREFIX}tokens",
        "Partitions that clients with a quota may create or delete at once; below 0 they wait.",
        *(
            Sample(meter.record.tokens(meter.limit, now_ms), _labels(MUTATION, meter.share))
            for meter in quotas.mutations.meters.shown(now_ms)
        ),
    )
    kinds = ((PRODUCE, produce), (FETCH, fetch), (REQUEST, request))
    throttled: list[tuple[str, Meter[Any]]] = [
        *((kind, meter) for kind, meters in kinds for meter in meters.shown(now_ms)),
        *((MUTATION, meter) for meter in quotas.mutations.meters.shown(now_ms)),
    ]
    yield gauge(
        f"{PREFIX}throttle_time",
        "Average wait of throttled clients in ms, lately.",
        *(
            Sample(meter.throttle_ms_average(now_ms), _labels(kind, meter.share))
            for kind, meter in throttled
        ),
    )
    yield counter(
        "heliograph_quota_throttles_total",
        "How often a client had to wait for its quota.",
        *(Sample(meter.throttles, _labels(kind, meter.share)) for kind, meter in throttled),
    )


def _rates(kind: str, meters: ClientMeters[WindowedRate], now_ms: int) -> Iterator[Sample]:
    for meter in meters.shown(now_ms):
        yield Sample(meter.record.rate(now_ms), _labels(kind, meter.share))


def _labels(kind: str, share: Share) -> dict[str, str]:
    """Return the labels. A quota that does not depend on the user has no label of one."""
    labels = {"resource": kind}
    if share.user != NOBODY:
        labels["user"] = share.user
    if share.client_id != NOBODY:
        labels["clientId"] = share.client_id
    return labels
