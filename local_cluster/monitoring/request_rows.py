"""Metrics of requests, as in Kafka's RequestMetrics: one row per API.

Quantiles cover the last minutes, as Kafka's do: the counts since a snapshot that is 4 to 5 minutes
old, or since the start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from local_cluster.counters.latency import BUCKETS, quantiles_ms
from local_cluster.counters.requests import RequestMeters
from local_cluster.monitoring.partition_rows import Row
from local_cluster.prometheus_text import Head
from local_cluster.wire.api import ApiKey

SNAPSHOT_INTERVAL_MS: Final = 60_000
SNAPSHOTS_MAX: Final = 5
QUANTILES: Final = {name: float(name) for name in ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")}
_PREFIX: Final = "kafka_network_requestmetrics_"
_PARTS: Final = ("requestqueuetimems", "localtimems", "remotetimems", "totaltimems")

HEADS: Final = (
    Head(f"{_PREFIX}requests_total", "counter", "Requests, by API and version."),
    *(
        head
        for part, text in (
            ("requestqueuetimems", "Time until the handler is called, in ms, by quantile."),
            ("localtimems", "Time in the handler, in ms, by quantile."),
            ("remotetimems", "Time that the response waits for others, in ms, by quantile."),
            ("totaltimems", "Time from the arrival to the response, in ms, by quantile."),
        )
        for head in (
            Head(f"{_PREFIX}{part}", "gauge", text),
            Head(f"{_PREFIX}{part}_count", "counter", "Requests since the start."),
        )
    ),
)


class ApiTimes(NamedTuple):
    """Durations of one API's requests by bucket, all versions together, since the start."""

    requests: int
    queue: list[int]
    local: list[int]
    remote: list[int]
    total: list[int]


class RecentTimes:
    """The times of the last minutes."""

    def __init__(self, meters: RequestMeters) -> None:
        self._meters = meters
        self._snapshots: deque[dict[int, ApiTimes]] = deque(maxlen=SNAPSHOTS_MAX)

    def take_snapshot(self) -> None:
        """Keep the present counts. Call it every SNAPSHOT_INTERVAL_MS."""
        keys = {each.api_key for each in self._meters}
        self._snapshots.append({key: self._times(key) for key in keys})

    def rows(self) -> Iterator[Row]:
        """Yield the row of each API that had a request since the start."""
        oldest = self._snapshots[0] if self._snapshots else {}
        for key in sorted({each.api_key for each in self._meters}):
            yield self._row(key, self._times(key), oldest.get(key, _NOTHING))

    def _times(self, api_key: int) -> ApiTimes:
        meters = [each for each in self._meters if each.api_key == api_key]
        requests = sum(each.requests for each in meters)
        return ApiTimes(
            requests,
            _filled(requests, _sum([each.queue for each in meters])),
            _sum([each.local for each in meters]),
            _filled(requests, _sum([each.remote for each in meters])),
            _sum([each.total for each in meters]),
        )

    def _row(self, api_key: int, now: ApiTimes, before: ApiTimes) -> Row:
        name = request_name(api_key)
        requests = "".join(
            f'{_PREFIX}requests_total{{request="{name}",version="{each.api_version}"}}'
            f" {each.requests}\n"
            for each in self._meters
            if each.api_key == api_key
        )
        lines = [requests]
        for part, counts, earlier in zip(_PARTS, now[1:], before[1:], strict=True):
            recent = [a - b for a, b in zip(counts, earlier, strict=True)]
            values = quantiles_ms(recent, tuple(QUANTILES.values()))
            lines.append(
                "".join(
                    f'{_PREFIX}{part}{{request="{name}",quantile="{quantile}"}} {value:.6g}\n'
                    for quantile, value in zip(QUANTILES, values, strict=True)
                )
            )
            lines.append(f'{_PREFIX}{part}_count{{request="{name}"}} {now.requests}\n')
        return tuple(lines)


def request_name(api_key: int) -> str:
    """Return Kafka's name of an API: ListOffsets."""
    return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))


def _sum(counts: list[list[int]]) -> list[int]:
    return [sum(each) for each in zip(*counts, strict=True)]


def _filled(requests: int, counts: list[int]) -> list[int]:
    """Return the counts with all other requests in the first bucket: they did not wait."""
    counts[0] += requests - sum(counts)
    return counts


_NOTHING: Final = ApiTimes(0, *([0] * BUCKETS for _ in range(4)))
