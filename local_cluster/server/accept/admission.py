"""Counts the connections of a broker, and decides about new ones. Pure.

As Kafka's ConnectionQuotas (KIP-402, KIP-612):

    limit                          a new connection above it
    max.connections                waits in the backlog
    max.connection.creation.rate   waits in the backlog
    max.connections.per.ip         is closed at once
    connection_creation_rate       is closed after the wait of the quota

The first two hold for the broker, and under listener.name.<name> for one listener.

The inter-broker listener is protected if there are other listeners, and so is the former one while
brokers move: of the first two only its own hold for it. Its connections count, and one of another
listener is closed for each above the broker's max.connections.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from local_cluster.quotas.entity import IP, Entity
from local_cluster.quotas.quota_keys import CONNECTION_CREATION_RATE
from local_cluster.quotas.windowed_rate import WindowedRate
from local_cluster.server.accept.limits import UNLIMITED, ConnectionLimits

RATES_MAX: Final = 10_000
"""Addresses whose rate is remembered. The idle ones are forgotten first."""
DEFAULT_ENTITY: Final[Entity] = ((IP, None),)

Quotas = Mapping[Entity, Mapping[str, float]]


class Refusal(NamedTuple):
    """Why a connection is closed, and how many ms after it was accepted."""

    kind: str
    """Label of the metric: per_ip or ip_rate."""
    reason: str
    delay_ms: int


class Admission:
    """The connections of one broker. All times are monotonic, in ms."""

    def __init__(self, limits: ConnectionLimits, protected: Collection[str] = ()) -> None:
        """`protected` are the protected listeners."""
        self.limits = limits
        """Replace it to change the limits."""
        self._protected = protected
        self._by_address: dict[str, int] = {}
        self._by_listener: dict[str, int] = {}
        self.open_connections = 0
        self._created = self._new_rate()
        self._created_by_listener: dict[str, WindowedRate] = {}
        self._quotas: dict[str, float] = {}
        """The rate of each address with a quota of its own."""
        self._default_quota: float | None = None
        self._rates: dict[str, tuple[WindowedRate, int]] = {}
        """What an address did, and when it did it last."""

    def set_quotas(self, quotas: Quotas) -> None:
        """Apply changed quotas of addresses."""
        self._quotas = {
            name: values[CONNECTION_CREATION_RATE]
            for ((kind, name), *others), values in quotas.items()
            if kind == IP and not others and name and CONNECTION_CREATION_RATE in values
        }
        self._default_quota = quotas.get(DEFAULT_ENTITY, {}).get(CONNECTION_CREATION_RATE)
        if not self._quotas and self._default_quota is None:
            self._rates.clear()

    def has_room(self, listener: str) -> bool:
        """Return whether a listener may accept one more connection."""
        if self._by_listener.get(listener, 0) >= self.limits.of_listener(listener).connections_max:
            return False
        return listener in self._protected or self.open_connections < self.limits.connections_max

    @property
    def excess(self) -> int:
        """How many connections of unprotected listeners have to go."""
        return max(0, self.open_connections - self.limits.connections_max)

    def note_created(self, listener: str, now_ms: int) -> int:
        """Count an accepted connection; return how long the listener must not accept another."""
        wait_ms = 0
        own_max = self.limits.of_listener(listener).creations_per_second_max
        if own_max != UNLIMITED:
            own = self._created_by_listener.setdefault(listener, self._new_rate())
            own.record(1, now_ms)
            wait_ms = own.wait_ms(own_max, now_ms)
        if listener not in self._protected and self.limits.creations_per_second_max != UNLIMITED:
            self._created.record(1, now_ms)
            of_broker = self._created.wait_ms(self.limits.creations_per_second_max, now_ms)
            wait_ms = max(wait_ms, of_broker)
        return min(wait_ms, self.limits.window_ms)

    def admit(self, listener: str, address: str, now_ms: int) -> Refusal | None:
        """Count a connection, or return why it is refused. `address` is a plain one."""
        wait_ms = self._wait_of_address(address, now_ms)
        if wait_ms:
            reason = f"{address} exceeds its quota of new connections ({CONNECTION_CREATION_RATE})"
            return Refusal("ip_rate", reason, wait_ms)
        count, most = self._by_address.get(address, 0), self.limits.of_address(address)
        if count >= most:
            return Refusal(
                "per_ip", f"{address} has {count} connections (max.connections.per.ip)", 0
            )
        self._by_address[address] = count + 1
        self._by_listener[listener] = self._by_listener.get(listener, 0) + 1
        self.open_connections += 1
        return None

    def release(self, listener: str, address: str) -> None:
        """Forget a connection that has ended."""
        self._by_listener[listener] -= 1
        count = self._by_address[address] - 1
        self.open_connections -= 1
        if count:
            self._by_address[address] = count
        else:
            del self._by_address[address]

    # -- inside -----------------------------------------------------------------------------

    def _wait_of_address(self, address: str, now_ms: int) -> int:
        quota = self._quotas.get(address, self._default_quota)
        if quota is None:
            return 0
        if address not in self._rates and len(self._rates) >= RATES_MAX:
            self._forget_idle(now_ms)
        rate, _ = self._rates.get(address) or (self._new_rate(), now_ms)
        self._rates[address] = (rate, now_ms)
        rate.record(1, now_ms)
        wait_ms = min(rate.wait_ms(quota, now_ms), self.limits.window_ms)
        if wait_ms:
            # A refused connection does not count.
            rate.record(-1, now_ms)
        return wait_ms

    def _forget_idle(self, now_ms: int) -> None:
        """Forget idle addresses; if none is idle, the one that was idle for longest."""
        memory_ms = self.limits.windows * self.limits.window_ms
        idle = [each for each, (_, at) in self._rates.items() if now_ms - at >= memory_ms]
        for address in idle or [min(self._rates, key=lambda each: self._rates[each][1])]:
            del self._rates[address]

    def _new_rate(self) -> WindowedRate:
        return WindowedRate(windows=self.limits.windows, window_ms=self.limits.window_ms)
