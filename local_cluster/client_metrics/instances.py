"""The clients that take part in client metrics, and which of their requests are valid. Pure.

Source: Kafka's ClientMetricsManager and ClientMetricsInstance, whose order of checks this follows.
An instance ends with its connection, or when it was not used for three intervals, at least a
minute. At most `INSTANCES_MAX` are known; beyond that the least recently used one is forgotten, and
is created again by its next request.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from local_cluster.client_metrics.subscriptions import Subscription, Wanted, combine
from local_cluster.records.compress import Codec
from local_cluster.wire.errors import ErrorCode

INSTANCES_MAX: Final = 16_384
EXPIRY_MS_MIN: Final = 60_000
EXPIRY_INTERVALS: Final = 3
SWEEP_INTERVAL_MS: Final = 60_000
"""Time between two searches for instances that expired."""
NEVER_MS: Final = -(1 << 62)
RESERVED_IDS: Final = (uuid.UUID(int=0), uuid.UUID(int=1))
"""Kafka's Uuid.RESERVED: zero and one."""
_ASKS_AGAIN: Final = (ErrorCode.unknown_subscription_id, ErrorCode.unsupported_compression_type)
"""After these errors a client asks for its subscription at once."""


class Instance:
    """One client instance: what is wanted of it, and its last requests."""

    __slots__ = (
        "attributes",
        "expires_ms",
        "get_ms",
        "instance_id",
        "last_error",
        "push_ms",
        "subscription_id",
        "terminating",
        "version",
        "wanted",
    )

    def __init__(
        self, instance_id: uuid.UUID, attributes: Mapping[str, str], wanted: Wanted, version: int
    ) -> None:
        self.instance_id = instance_id
        self.attributes = attributes
        self.wanted = wanted
        self.subscription_id = wanted.subscription_id(instance_id)
        self.version = version
        """Of the subscriptions that `wanted` comes from."""
        self.get_ms = NEVER_MS
        self.push_ms = NEVER_MS
        self.expires_ms = 0
        self.last_error = ErrorCode.none
        self.terminating = False

    @property
    def lifetime_ms(self) -> int:
        """How long it is remembered after a request."""
        return max(EXPIRY_MS_MIN, EXPIRY_INTERVALS * self.wanted.interval_ms)

    def may_get(self, now_ms: int) -> bool:
        """Return whether the interval since the last request has passed; if so, note the time."""
        is_due = now_ms - max(self.get_ms, self.push_ms) >= self.wanted.interval_ms
        if is_due:
            self.get_ms = now_ms
        return is_due

    def may_push(self, now_ms: int) -> bool:
        """As above. The first push after a subscription may come early: clients add jitter."""
        is_due = self.get_ms > self.push_ms or now_ms - self.push_ms >= self.wanted.interval_ms
        if is_due:
            self.push_ms = now_ms
        return is_due


class ClientInstances:
    """The known client instances of one broker. Times are monotonic, in ms."""

    def __init__(self) -> None:
        self._instances: OrderedDict[uuid.UUID, Instance] = OrderedDict()
        """The least recently used one first."""
        self._by_connection: dict[int, uuid.UUID] = {}
        self._subscriptions: Sequence[Subscription] = ()
        self._version = 0
        self._swept_ms = NEVER_MS

    def __len__(self) -> int:
        return len(self._instances)

    def __contains__(self, instance_id: uuid.UUID) -> bool:
        return instance_id in self._instances

    def set_subscriptions(self, subscriptions: Sequence[Subscription]) -> None:
        """Use other subscriptions. Each instance learns of it with its next request."""
        if subscriptions != self._subscriptions:
            self._subscriptions = subscriptions
            self._version += 1

    def use(
        self,
        instance_id: uuid.UUID,
        attributes: Mapping[str, str],
        connection_id: int,
        now_ms: int,
    ) -> Instance:
        """Return the instance of a request. It is new if it is unknown, expired or outdated."""
        self._sweep(now_ms)
        known = self._instances.get(instance_id)
        if known is None or known.expires_ms <= now_ms:
            known = self._create(instance_id, attributes, connection_id)
        elif known.version < self._version:
            known = self._create(instance_id, known.attributes, connection_id)
        self._instances.move_to_end(instance_id)
        known.expires_ms = now_ms + known.lifetime_ms
        return known

    def end_connection(self, connection_id: int) -> None:
        """Forget the instance that a closed connection created."""
        instance_id = self._by_connection.pop(connection_id, None)
        if instance_id is not None:
            self._instances.pop(instance_id, None)

    def _create(
        self, instance_id: uuid.UUID, attributes: Mapping[str, str], connection_id: int
    ) -> Instance:
        created = Instance(
            instance_id, attributes, combine(self._subscriptions, attributes), self._version
        )
        self._instances[instance_id] = created
        self._by_connection[connection_id] = instance_id
        if len(self._instances) > INSTANCES_MAX:
            self._instances.popitem(last=False)
        return created

    def _sweep(self, now_ms: int) -> None:
        if now_ms - self._swept_ms < SWEEP_INTERVAL_MS:
            return
        self._swept_ms = now_ms
        for each in [key for key, one in self._instances.items() if one.expires_ms <= now_ms]:
            del self._instances[each]


def check_get(instance: Instance, now_ms: int) -> ErrorCode:
    """Return the error of GetTelemetrySubscriptions, and note the request."""
    if not instance.may_get(now_ms) and instance.last_error not in _ASKS_AGAIN:
        return ErrorCode.throttling_quota_exceeded
    instance.last_error = ErrorCode.none
    return ErrorCode.none


def check_push(
    instance: Instance,
    *,
    subscription_id: int,
    compression_type: int,
    payload_bytes: int,
    payload_bytes_max: int,
    terminating: bool,
    now_ms: int,
) -> ErrorCode:
    """Return the error of PushTelemetry before its payload is read, and note the request."""
    error = ErrorCode.none
    if instance.terminating:
        error = ErrorCode.invalid_request
    elif not instance.may_push(now_ms) and not terminating:
        error = ErrorCode.throttling_quota_exceeded
    elif subscription_id != instance.subscription_id:
        error = ErrorCode.unknown_subscription_id
    elif compression_type not in tuple(Codec):
        error = ErrorCode.unsupported_compression_type
    elif payload_bytes > payload_bytes_max:
        error = ErrorCode.telemetry_too_large
    instance.last_error = error
    instance.terminating = terminating
    return error
