"""The clients that have one quota, and what each share of it has recorded. Pure.

Limits: METERS_MAX shares and CLIENTS_MAX clients are remembered. A share that nobody used for its
whole memory is forgotten first, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, Generic, TypeVar

from local_cluster.quotas.limits import Quotas, Share, find_limit
from local_cluster.quotas.windowed_rate import WindowedRate

METERS_MAX: Final = 10_000
CLIENTS_MAX: Final = 20_000
SHOWN_MS_MAX: Final = 60 * 60 * 1_000
"""After such a time without use a share is no longer shown, as in Kafka."""
USER_PREFIX: Final = "User:"

Record = TypeVar("Record")


class Meter(Generic[Record]):
    """What the clients of one share did, and their quota."""

    __slots__ = ("_counts", "_sums", "limit", "record", "share", "throttles", "used_ms")

    def __init__(self, share: Share, limit: float, record: Record) -> None:
        self.share = share
        self.limit = limit
        self.record = record
        self.used_ms = 0
        self.throttles = 0
        """How often a client had to wait."""
        self._sums, self._counts = WindowedRate(), WindowedRate()

    def throttled(self, throttle_ms: int, now_ms: int) -> None:
        """Count a client that has to wait."""
        self.throttles += 1
        self._sums.record(throttle_ms, now_ms)
        self._counts.record(1, now_ms)

    def throttle_ms_average(self, now_ms: int) -> float:
        """Return the average wait of the last eleven seconds; 0 if nobody had to wait."""
        count = self._counts.rate(now_ms)
        # Both were recorded together, so their rates are over the same time.
        return self._sums.rate(now_ms) / count if count else 0.0


class ClientMeters(Generic[Record]):
    """The meters of one quota key. All times are monotonic, in ms."""

    def __init__(
        self,
        key: str,
        new_record: Callable[[], Record],
        *,
        memory_ms: int,
        exempt: Collection[str] = (),
    ) -> None:
        """A record that was not used for `memory_ms` is as good as new. `exempt` has principals for
        which only a quota holds that names their user."""
        self.is_used = False
        """Whether any client has this quota. If not, nothing is recorded."""
        self._key = key
        self._new_record = new_record
        self._memory_ms = memory_ms
        self._exempt = frozenset(exempt)
        self._quotas: Quotas = {}
        self._meters: dict[Share, Meter[Record]] = {}
        self._of_clients: dict[tuple[str, str | None], Meter[Record] | None] = {}
        """The meter by (principal, client id); None for a client without a quota."""

    def set_quotas(self, quotas: Quotas) -> None:
        """Apply changed quotas, also to clients that are connected. Records go on."""
        self._quotas = quotas
        self._of_clients.clear()
        self.is_used = any(self._key in values for values in quotas.values())
        if not self.is_used:
            self._meters.clear()

    def of(self, principal: str, client_id: str | None, now_ms: int) -> Meter[Record] | None:
        """Return the meter of a client, None if it has no quota."""
        client = (principal, client_id)
        if client not in self._of_clients:
            if len(self._of_clients) >= CLIENTS_MAX:
                self._of_clients.clear()
            self._of_clients[client] = self._find(principal, client_id or "", now_ms)
        meter = self._of_clients[client]
        if meter is not None:
            meter.used_ms = now_ms
        return meter

    def shown(self, now_ms: int) -> Iterator[Meter[Record]]:
        """Yield the meters that were used within the last hour."""
        for meter in tuple(self._meters.values()):
            if now_ms - meter.used_ms < SHOWN_MS_MAX:
                yield meter

    def __len__(self) -> int:
        return len(self._meters)

    # -- inside -----------------------------------------------------------------------------

    def _find(self, principal: str, client_id: str, now_ms: int) -> Meter[Record] | None:
        user = principal.removeprefix(USER_PREFIX)
        limit = find_limit(
            self._quotas, self._key, user, client_id, only_named=principal in self._exempt
        )
        if limit is None:
            return None
        meter = self._meters.get(limit.share)
        if meter is None:
            if len(self._meters) >= METERS_MAX:
                self._forget_some(now_ms)
            meter = self._meters[limit.share] = Meter(limit.share, limit.value, self._new_record())
        meter.limit = limit.value
        return meter

    def _forget_some(self, now_ms: int) -> None:
        """Forget the idle meters; if none is idle, the one that was not used for longest."""
        idle = [
            share
            for share, meter in self._meters.items()
            if now_ms - meter.used_ms >= self._memory_ms
        ]
        if not idle:
            idle = [min(self._meters.values(), key=lambda meter: meter.used_ms).share]
        for share in idle:
            del self._meters[share]
        self._of_clients.clear()
