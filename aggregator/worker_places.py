"""Places at which mirror workers may be asked. Pure.

Members of the workers' group publish their addresses. A forged one must lead nowhere: the
aggregator would send its token there, or ask a service that only its own host reaches.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from typing import Final

from aggregator.settings import WorkerPlace
from local_cluster.http_security.addresses import is_loopback

HERE: Final = "localhost"
"""Stands for every loopback address."""
PORT_MAX: Final = 65_535


def place_of(host: str) -> str:
    """Return one form for all spellings of an address or a name."""
    if is_loopback(host):
        return HERE
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower()


class AllowedPlaces:
    """The places that the settings allow."""

    def __init__(self, places: Collection[WorkerPlace], machine: str) -> None:
        """`machine` is the name of this host, which as an allowed host also means its loopback."""
        self._places = [(place_of(each.host), each.port) for each in places]
        self._places += [(HERE, port) for host, port in self._places if host == machine.lower()]
        self.addresses: Mapping[str, Collection[str]] = {}
        """The addresses of each of `names`, as far as they are known."""

    @property
    def names(self) -> list[str]:
        """The allowed hosts that are no addresses."""
        return sorted({host for host, _ in self._places if host != HERE and not _is_address(host)})

    def host_to_ask(self, published: str, port: int) -> str | None:
        """Return the host at which a worker may be asked; None if it may not.

        It is the name of the settings rather than an address of that name, because a certificate
        has the name.
        """
        if not 0 < port <= PORT_MAX:
            return None
        host = place_of(published)
        for place, only in self._places:
            if only not in (None, port):
                continue
            if host == place:
                return published if host == HERE else host
            if host in self.addresses.get(place, ()):
                return place
        return None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
