"""The software and the port of each client, by connection. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

UNKNOWN: Final = "unknown"


class Client(NamedTuple):
    """What a connection tells about its client besides the header of a request."""

    port: int = 0
    software_name: str = UNKNOWN
    """Of ApiVersions (KIP-511)."""
    software_version: str = UNKNOWN


class ClientConnections:
    """The open connections. Without a receiver of client metrics nothing is remembered."""

    def __init__(self, is_used: bool) -> None:
        self._is_used = is_used
        self._clients: dict[int, Client] = {}

    def opened(self, connection_id: int, port: int) -> None:
        """Remember the port of a new connection."""
        if self._is_used:
            self._clients[connection_id] = Client(port)

    def name_software(self, connection_id: int, name: str, version: str) -> None:
        """Remember what the client calls itself, if its connection is open."""
        known = self._clients.get(connection_id)
        if known is not None:
            self._clients[connection_id] = Client(known.port, name, version)

    def closed(self, connection_id: int) -> None:
        """Forget a connection."""
        self._clients.pop(connection_id, None)

    def find(self, connection_id: int) -> Client:
        """Return what is known."""
        return self._clients.get(connection_id, Client())
