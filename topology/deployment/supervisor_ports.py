"""The HTTP ports of the supervisors of a deployment: which host has one, and where. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from local_cluster.http_security.addresses import url_of
from local_cluster.http_security.settings import OPEN, HttpSecurity, check_binding
from topology.model.scalars import ANY_ADDRESSES, LOOPBACK_NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorPorts:
    """The ports, and how they secure themselves; it holds no secrets."""

    port: int
    bind: str | None = None
    """Address to bind; None binds the address of the host."""
    hosts: tuple[str, ...] | None = None
    """Hosts that have the port; None for every host."""
    security: HttpSecurity = OPEN

    def has(self, host: str) -> bool:
        """Return whether the supervisor of a host has a port."""
        return self.hosts is None or host in self.hosts

    def addresses(self, hosts: list[str]) -> tuple[tuple[str, int], ...]:
        """Return what the supervisor of a machine with these hosts binds, each address once."""
        found = {self.bind or host: None for host in hosts if self.has(host)}
        return tuple((address, self.port) for address in found)

    def url(self, host: str) -> str | None:
        """Return the URL at which other hosts ask the supervisor of a host; None without one."""
        if not self.has(host) or host in LOOPBACK_NAMES | ANY_ADDRESSES:
            return None
        return url_of(self.security.scheme, host, self.port)

    def check(self, hosts: list[str]) -> None:
        """Raise ValueError if the port may not be opened on a machine with these hosts."""
        if not self.security.is_guarded:
            raise ValueError("the HTTP port of a supervisor needs a `token` in `http_security`")
        for address, _ in self.addresses(hosts):
            check_binding(address, self.security)
