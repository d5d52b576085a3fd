"""The limits of client connections, by Kafka's configs. Pure.

Every reader takes them from one object, so that replacing it changes them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from local_cluster.broker_configs import listener_config
from local_cluster.kafka_configs.address_limits import parse_overrides
from local_cluster.quotas.windowed_rate import WINDOW_MS_DEFAULT, WINDOWS_DEFAULT
from local_cluster.settings import BrokerSettings
from local_cluster.wire import request_memory

UNLIMITED: Final = (1 << 31) - 1
IDLE_MS_MAX_DEFAULT: Final = 600_000
"""Kafka's default of connections.max.idle.ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """The limits of one listener, beside those of its broker."""

    connections_max: int = UNLIMITED
    """listener.name.<name>.max.connections."""
    creations_per_second_max: int = UNLIMITED
    """listener.name.<name>.max.connection.creation.rate."""


NO_LIMITS: Final = ListenerLimits()


class ConnectionSettings(NamedTuple):
    """The configurable limits of a connection."""

    frame_bytes_max: int = 100 * 1024 * 1024
    """Kafka's default of socket.request.max.bytes."""
    send_buffer_bytes: int = 256 * 1024
    """Default of socket.send.buffer.bytes; Kafka's is 100 KiB. Beyond some 512 KiB the pages on
    their way fall out of the processor's cache and cost twice as much. -1 leaves it to the system,
    which is better for consumers far away."""
    request_bytes_max: int = request_memory.DEFAULT_BYTES_MAX
    """queued.max.request.bytes: what requests of all connections may take; -1 is no limit."""

    @staticmethod
    def of(settings: BrokerSettings) -> ConnectionSettings:
        """Take the limits from a broker's settings."""
        default = ConnectionSettings()
        return ConnectionSettings(
            settings.config_int("socket.request.max.bytes", default.frame_bytes_max),
            settings.config_int("socket.send.buffer.bytes", default.send_buffer_bytes),
            settings.config_int("queued.max.request.bytes", default.request_bytes_max),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The limits of one broker."""

    connections_max: int = UNLIMITED
    """max.connections: open connections of all listeners."""
    per_address_max: int = UNLIMITED
    """max.connections.per.ip."""
    overrides: Mapping[str, int] = field(default_factory=dict)
    """max.connections.per.ip.overrides, by address."""
    creations_per_second_max: int = UNLIMITED
    """max.connection.creation.rate: new connections of all listeners."""
    of_listeners: Mapping[str, ListenerLimits] = field(default_factory=dict)
    """The limits of listeners that have their own, by name in lower case."""
    idle_ms_max: int = IDLE_MS_MAX_DEFAULT
    """connections.max.idle.ms; below 0 there is no limit."""
    windows: int = WINDOWS_DEFAULT
    """quota.window.num: windows of every rate of new connections."""
    window_ms: int = WINDOW_MS_DEFAULT
    """quota.window.size.seconds, in ms: also the longest wait above a rate."""

    @staticmethod
    def of(config: Mapping[str, str]) -> ConnectionLimits:
        """Take the limits from valid broker configs."""

        def number(name: str, default: int) -> int:
            return int(config.get(name, default))

        return ConnectionLimits(
            connections_max=number("max.connections", UNLIMITED),
            per_address_max=number("max.connections.per.ip", UNLIMITED),
            overrides=parse_overrides(config.get("max.connections.per.ip.overrides", "")),
            creations_per_second_max=number("max.connection.creation.rate", UNLIMITED),
            of_listeners=_of_listeners(config),
            idle_ms_max=number("connections.max.idle.ms", IDLE_MS_MAX_DEFAULT),
            windows=number("quota.window.num", WINDOWS_DEFAULT),
            window_ms=number("quota.window.size.seconds", WINDOW_MS_DEFAULT // 1000) * 1000,
        )

    def of_listener(self, name: str) -> ListenerLimits:
        """Return the limits of a listener's own."""
        return self.of_listeners.get(name.lower(), NO_LIMITS)

    def of_address(self, address: str) -> int:
        """Return how many connections an address may have."""
        return self.overrides.get(address, self.per_address_max)


def _of_listeners(config: Mapping[str, str]) -> dict[str, ListenerLimits]:
    found: dict[str, dict[str, int]] = {}
    for name, value in config.items():
        if (of_listener := listener_config(name)) is not None:
            listener, base = of_listener
            found.setdefault(listener, {})[base] = int(value)
    return {
        listener: ListenerLimits(
            connections_max=own.get("max.connections", UNLIMITED),
            creations_per_second_max=own.get("max.connection.creation.rate", UNLIMITED),
        )
        for listener, own in found.items()
    }
