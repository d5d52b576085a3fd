"""One quota of all clients of a broker: bytes produced, bytes fetched or request time. Pure.

Each client adds to the rate that it shares (limits.py). Where the rate exceeds the quota, the
client has to wait.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from local_cluster.quotas.client_meters import ClientMeters, Meter
from local_cluster.quotas.limits import Quotas
from local_cluster.quotas.windowed_rate import WindowedRate


class ClientRates:
    """The rates of one quota key. All times are monotonic, in ms."""

    def __init__(
        self,
        key: str,
        *,
        windows: int,
        window_ms: int,
        wait_ms_max: int | None = None,
        exempt: Collection[str] = (),
    ) -> None:
        """`exempt` has principals for which only a quota holds that names their user."""
        self.is_used = False
        """Whether any client has this quota. If not, nothing is recorded."""
        self.meters = ClientMeters(
            key,
            partial(WindowedRate, windows=windows, window_ms=window_ms),
            memory_ms=windows * window_ms,
            exempt=exempt,
        )
        self._burst_s = (windows - 1) * window_ms / 1000
        self._wait_ms_max = wait_ms_max

    def set_quotas(self, quotas: Quotas) -> None:
        """Apply changed quotas, also to clients that are connected."""
        self.meters.set_quotas(quotas)
        self.is_used = self.meters.is_used

    def record(self, principal: str, client_id: str | None, value: float, now_ms: int) -> int:
        """Add what a client did; return how many ms it has to wait."""
        meter = self.meters.of(principal, client_id, now_ms)
        if meter is None:
            return 0
        meter.record.record(value, now_ms)
        return self._wait_ms(meter, now_ms)

    def take_back(self, principal: str, client_id: str | None, value: float, now_ms: int) -> None:
        """Undo a record of the same time: the client got nothing."""
        meter = self.meters.of(principal, client_id, now_ms)
        if meter is not None:
            meter.record.record(-value, now_ms)

    def wait_ms(self, principal: str, client_id: str | None, now_ms: int) -> int:
        """Return how many ms a client has to wait for what it did before."""
        meter = self.meters.of(principal, client_id, now_ms)
        return 0 if meter is None else self._wait_ms(meter, now_ms)

    def value_max(self, principal: str, client_id: str | None, now_ms: int) -> float | None:
        """Return what a client may do at once after a pause; None if there is no limit."""
        meter = self.meters.of(principal, client_id, now_ms)
        return None if meter is None else meter.limit * self._burst_s

    def _wait_ms(self, meter: Meter[WindowedRate], now_ms: int) -> int:
        wait_ms = meter.record.wait_ms(meter.limit, now_ms)
        if self._wait_ms_max is not None:
            wait_ms = min(wait_ms, self._wait_ms_max)
        if wait_ms:
            meter.throttled(wait_ms, now_ms)
        return wait_ms
