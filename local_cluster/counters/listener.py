"""What one listener counts: its connections, as in Kafka's socket-server-metrics, and requests."""

from __future__ import annotations

from local_cluster.counters.requests import RequestMeters


class ListenerCounters:
    """The counters of one listener. All listeners of a broker share the meters of requests."""

    __slots__ = ("authenticated", "closed", "limited", "meters", "opened", "refused")

    def __init__(self, meters: RequestMeters | None = None) -> None:
        self.opened = 0
        """Connections that were accepted."""
        self.closed = 0
        """Those of them that have ended."""
        self.authenticated = 0
        """SASL authentications that succeeded."""
        self.refused = 0
        """Those that failed."""
        self.limited: dict[str, int] = {}
        """Connections that a limit refused, by the limit."""
        self.meters = meters or RequestMeters()

    def note_limited(self, limit: str) -> None:
        """Count a connection that a limit refused."""
        self.limited[limit] = self.limited.get(limit, 0) + 1

    @property
    def open_connections(self) -> int:
        """The connections that are open."""
        return self.opened - self.closed
