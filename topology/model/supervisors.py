"""HTTP ports of the supervisors, by which commands speak of every host."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from topology.model.scalars import Entry, Host, Port


class Supervisors(Entry):
    """HTTP ports of the supervisors, by which `plan`, `status` and `down` speak of every host. They
    need a `token` in `http_security`."""

    port: Port
    """Port of each host, at its address in this file."""
    bind: Literal["0.0.0.0", "::"] | None = None
    """Address to bind; default: the address of the host in this file. 0.0.0.0 is for hosts behind
    NAT."""
    hosts: Annotated[list[Host], Field(min_length=1)] | None = None
    """Hosts whose supervisor has the port; default: every host."""
