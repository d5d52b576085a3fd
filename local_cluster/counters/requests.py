"""Requests by API and version: how many, how long, and how many wait for their response.

A request's time has three parts, as in Kafka's RequestMetrics:

    queue     from its arrival until its handler is called
    local     until the handler has returned; the encoding of an immediate response counts too
    remote    until the response is ready: a commit, records, a rebalance

Sending is not a part. The total is the sum of the three. Most requests of a busy broker wait in no
queue, and their response is ready at once. Those are counted once, for local and total together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from local_cluster.counters.latency import BUCKETS, LAST_BUCKET, UNIT_BITS, bucket_of

VERSION_BITS: Final = 8


class ApiMeter:
    """The requests of one API in one version. The lists count durations by bucket."""

    __slots__ = (
        "_immediate",
        "_local",
        "_total",
        "api_key",
        "api_version",
        "queue",
        "remote",
        "requests",
        "waiting",
    )

    def __init__(self, api_key: int, api_version: int) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.requests = 0
        """Answered requests, those with acks=0 included."""
        self.waiting = 0
        """Requests whose handler has returned without a response."""
        self.queue = [0] * BUCKETS
        """Only of requests that waited in the queue."""
        self.remote = [0] * BUCKETS
        """Only of requests whose response came later."""
        self._immediate = [0] * BUCKETS
        self._local = [0] * BUCKETS
        self._total = [0] * BUCKETS

    def answered(self, local_ns: int) -> None:
        """Count a request that found no queue, and whose handler returned the response."""
        self.requests += 1
        # bucket_of() without its call, which would cost as much as all the rest.
        units = local_ns >> UNIT_BITS
        if units >= 8:
            bits = units.bit_length() - 3
            units = (bits << 2) + (units >> bits)
            if units > LAST_BUCKET:
                units = LAST_BUCKET
        elif units < 0:
            units = 0
        self._immediate[units] += 1

    def answered_late(self, queue_ns: int, local_ns: int, remote_ns: int) -> None:
        """Count a request that waited in the queue, or for its response, or both."""
        self.requests += 1
        if queue_ns:
            self.queue[bucket_of(queue_ns)] += 1
        if remote_ns:
            self.remote[bucket_of(remote_ns)] += 1
        self._local[bucket_of(local_ns)] += 1
        self._total[bucket_of(queue_ns + local_ns + remote_ns)] += 1

    @property
    def local(self) -> list[int]:
        """All requests by their local time."""
        return [a + b for a, b in zip(self._immediate, self._local, strict=True)]

    @property
    def total(self) -> list[int]:
        """All requests by their total time."""
        return [a + b for a, b in zip(self._immediate, self._total, strict=True)]


class RequestMeters:
    """The meters of one broker; each is created by its first request."""

    __slots__ = ("_meters",)

    def __init__(self) -> None:
        self._meters: dict[int, ApiMeter] = {}

    def of(self, api_key: int, api_version: int) -> ApiMeter:
        """Return the meter of a served version of an API."""
        key = api_key << VERSION_BITS | api_version
        found = self._meters.get(key)
        if found is None:
            found = self._meters[key] = ApiMeter(api_key, api_version)
        return found

    def __iter__(self) -> Iterator[ApiMeter]:
        yield from tuple(self._meters.values())

    def waiting(self, *api_keys: int) -> int:
        """Return how many requests of these APIs wait for their response."""
        return sum(each.waiting for each in self if each.api_key in api_keys)
