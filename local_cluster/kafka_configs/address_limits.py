"""Limits by address, such as max.connections.per.ip.overrides, and one form for addresses. Pure."""

from __future__ import annotations

import ipaddress


def parse_overrides(text: str) -> dict[str, int]:
    """Return the limits of a list such as `10.0.0.1:100,::1:200`. Raises ValueError.

    Kafka also takes host names there.
    """
    found = {}
    for each in text.split(","):
        if each.strip():
            address, _, count = each.strip().rpartition(":")
            found[plain_address(address.strip("[]"))] = int(count)
    return found


def plain_address(text: str) -> str:
    """Return one form for all spellings of an address. Raises ValueError.

    An IPv4 address that came over an IPv6 socket is the IPv4 address, as in Java.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
