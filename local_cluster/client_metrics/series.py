"""The samples of all clients, as lines of a scrape. Pure.

A push replaces the gauges of its client. Counters add up if the client sends differences, as the
broker asks it to. A client's series end when it has not pushed for three intervals, at least a
minute: a scrape also sees the last push of a client that has left.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from local_cluster.prometheus_text import Head, Kind, labels_text

if TYPE_CHECKING:
    from local_cluster.client_metrics.otlp import ClientSample

SERIES_MAX: Final = 20_000
"""Series of all clients of one broker."""
EXPIRE_INTERVAL_MS: Final = 10_000
"""Time between two searches for series that ended, if nobody scrapes."""
LABEL_CHARS_MAX: Final = 255
"""Characters of a label's name or value; the rest is cut off."""
STEP_SERIES: Final = 200
"""Series that are written between two looks at the clock."""

INFO: Final = Head(
    "heliograph_client_info", "gauge", "1 for each client that pushes metrics to this broker."
)


class _Client:
    __slots__ = ("expires_ms", "info", "kinds", "values")

    def __init__(self) -> None:
        self.expires_ms = 0
        self.info = ""
        self.values: dict[tuple[str, str], float] = {}
        """By name and labels."""
        self.kinds: dict[str, Kind] = {}


class ClientSeries:
    """What the clients of one broker pushed."""

    def __init__(self) -> None:
        self._clients: dict[uuid.UUID, _Client] = {}
        self._count = 0
        self._expired_ms = 0
        self.dropped = 0
        """Data points that were not kept, since the start."""

    def __len__(self) -> int:
        return self._count

    def push(
        self,
        instance_id: uuid.UUID,
        info: Mapping[str, str],
        samples: tuple[ClientSample, ...],
        now_ms: int,
        expires_ms: int,
    ) -> None:
        """Take over what one client pushed; `info` labels its `heliograph_client_info`."""
        if now_ms - self._expired_ms >= EXPIRE_INTERVAL_MS:
            self.expire(now_ms)
        client = self._clients.setdefault(instance_id, _Client())
        client.expires_ms = expires_ms
        client.info = labels_text(info)
        before = client.values
        values = {key: value for key, value in before.items() if client.kinds[key[0]] == "counter"}
        self._count += len(values) - len(before)
        for each in samples:
            key = each.name, each.labels
            if key not in values:
                if self._count >= SERIES_MAX:
                    self.dropped += 1
                    continue
                self._count += 1
            base = before.get(key, 0.0) if each.is_delta else 0.0
            values[key] = base + each.value
            client.kinds[each.name] = each.kind
        client.values = values
        if not values:
            del self._clients[instance_id]  # so that there are no more clients than series

    def expire(self, now_ms: int) -> None:
        """Forget the series of clients that have not pushed for long."""
        self._expired_ms = now_ms
        for key in [key for key, each in self._clients.items() if each.expires_ms <= now_ms]:
            self._count -= len(self._clients.pop(key).values)

    def write(self, lines: dict[Head, list[str]]) -> Iterator[None]:
        """Fill in the lines of each metric, in steps.

        If clients differ in the kind of a metric, the first one that is found decides.
        """
        heads: dict[str, Head] = {}
        step = 0
        for client in tuple(self._clients.values()):
            lines.setdefault(INFO, []).append(f"{INFO.name}{client.info} 1\n")
            for (name, labels), value in tuple(client.values.items()):
                head = heads.get(name)
                if head is None:
                    text = "A metric that clients push (KIP-714)."
                    head = heads[name] = Head(name, client.kinds[name], text)
                lines.setdefault(head, []).append(f"{name}{labels} {value}\n")
                step += 1
                if step % STEP_SERIES == 0:
                    yield
        yield
