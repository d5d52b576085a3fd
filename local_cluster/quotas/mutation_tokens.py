"""The quota of partitions that clients create and delete (KIP-599). Pure.

Each client takes a token per partition from the bucket that it shares (limits.py):

    strict       in debt nothing is allowed: THROTTLING_QUOTA_EXCEEDED
    permissive   in debt everything is allowed, and the client waits; for older versions of the APIs

A client without debt may go into it, so that one large topic can be created at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from local_cluster.quotas.client_meters import ClientMeters, Meter
from local_cluster.quotas.limits import Quotas
from local_cluster.quotas.quota_keys import CONTROLLER_MUTATION_RATE
from local_cluster.quotas.token_bucket import TokenBucket
from local_cluster.wire.errors import ErrorCode, KafkaError


class MutationCharge:
    """What one request takes, and how long its client has to wait."""

    def __init__(
        self, meter: Meter[TokenBucket] | None, *, is_strict: bool, now_ms: Callable[[], int]
    ) -> None:
        """Without a meter everything is allowed."""
        self._meter = meter
        self._is_strict = is_strict
        self._now_ms = now_ms
        self._until_ms = 0

    def take(self, partitions: int) -> None:
        """Take tokens for partitions that are created or deleted.

        Raises KafkaError(throttling_quota_exceeded); then none are taken.
        """
        meter = self._meter
        if meter is None:
            return
        now_ms = self._now_ms()
        if not self._is_strict:
            meter.record.take(partitions, meter.limit, now_ms)
        wait_ms = meter.record.wait_ms(meter.limit, now_ms)
        if wait_ms:
            self._until_ms = now_ms + wait_ms
        if self._is_strict:
            if wait_ms:
                raise KafkaError(
                    ErrorCode.throttling_quota_exceeded,
                    "The throttling quota has been exceeded.",
                )
            meter.record.take(partitions, meter.limit, now_ms)

    def throttle_ms(self) -> int:
        """Return how long the client has to wait from now on; 0 if it need not."""
        now_ms = self._now_ms()
        throttle_ms = max(0, self._until_ms - now_ms)
        if throttle_ms and self._meter is not None:
            self._meter.throttled(throttle_ms, now_ms)
        return throttle_ms


class MutationTokens:
    """The tokens of all clients. All times are monotonic, in ms."""

    def __init__(self, *, windows: int, window_ms: int, exempt: Collection[str] = ()) -> None:
        """`exempt` has principals for which only a quota holds that names their user."""
        self.meters = ClientMeters(
            CONTROLLER_MUTATION_RATE,
            partial(TokenBucket, windows=windows, window_ms=window_ms),
            memory_ms=windows * window_ms,
            exempt=exempt,
        )

    def set_quotas(self, quotas: Quotas) -> None:
        """Apply changed quotas, also to clients that are connected."""
        self.meters.set_quotas(quotas)

    def charge(
        self, principal: str, client_id: str | None, *, is_strict: bool, now_ms: Callable[[], int]
    ) -> MutationCharge:
        """Return the charge of a new request."""
        meter = None
        if self.meters.is_used:
            meter = self.meters.of(principal, client_id, now_ms())
        return MutationCharge(meter, is_strict=is_strict, now_ms=now_ms)
