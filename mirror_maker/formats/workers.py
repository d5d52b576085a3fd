"""The addresses of a target's workers, in the subscriptions of their group.

A worker joins with a subscription (`mirror_maker.worker.assignment`): a version byte and a JSON
object. Its field "http" says where the worker serves its status:

    {"http": {"host": "0.0.0.0", "port": 8083, "machine": "ewr-3"}, ...}

Kafka Connect's workers publish their REST address in the same way (ConnectProtocol's WorkerState).
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from local_cluster.foreign_json import integer, parse_object, string
from local_cluster.http_security.addresses import is_any, is_loopback

PROTOCOL_TYPE: Final = "heliograph-mirror"
FORMAT_VERSION: Final = 1
PORT_MAX: Final = 65_535


def workers_group_id(target_alias: str) -> str:
    """Return the group of a target's workers."""
    return f"heliograph-mirror-{target_alias}"


class WorkerAddress(NamedTuple):
    """Where a worker serves HTTP."""

    host: str
    """The bind address: an address, a name, or one that means all addresses of its machine."""
    port: int
    machine: str
    """The host name of its machine."""

    def host_from(self, client_host: str, here: str) -> str | None:
        """Return the host to connect to from the machine named `here`; None if it is not reachable
        from there.

        `client_host` is the address of the worker as the target's coordinator sees it. It applies
        if the worker is bound to all of its addresses.
        """
        host = self.host
        if is_loopback(host):
            return host if self.machine == here else None
        if is_any(host):
            loopback = "::1" if ":" in host else "127.0.0.1"
            return loopback if self.machine == here else client_host
        return host


def worker_address(subscription: bytes) -> WorkerAddress | None:
    """Return the address in a member's metadata; None if there is none. Raises ValueError."""
    return address_of(decode_document(subscription))


def address_of(document: dict[str, Any]) -> WorkerAddress | None:
    """Return the address in a decoded subscription; None if there is none. Raises ValueError."""
    address = document.get("http")
    if address is None:
        return None
    try:
        return WorkerAddress(
            string(address["host"]),
            integer(address["port"], 0, PORT_MAX),
            string(address["machine"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an address of a worker: {error!r}") from error


def encode_document(document: object) -> bytes:
    """Return the version byte and the JSON."""
    return bytes((FORMAT_VERSION,)) + json.dumps(document, separators=(",", ":")).encode()


def decode_document(encoded: bytes) -> dict[str, Any]:
    """Decode what `encode_document` returned. Raises ValueError."""
    if encoded[:1] != bytes((FORMAT_VERSION,)):
        raise ValueError(f"version {encoded[:1].hex()}; this reader knows {FORMAT_VERSION}")
    return parse_object(encoded[1:])
