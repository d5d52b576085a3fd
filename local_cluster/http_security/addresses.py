"""Addresses of HTTP ports: which are of this host alone, and how a URL names them. Pure."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether only processes on this host reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_any(host: str) -> bool:
    """Return whether the address means every address of its host."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def url_of(scheme: str, host: str, port: int) -> str:
    """Return the URL of a port, without a path."""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def counted_address(host: str) -> str | None:
    """Return what connections of a host are counted by; None for the loopback.

    A proxy on the loopback stands for many clients. For IPv6 it is the whole /64, because a host
    has as many addresses of it as it likes. `host` is an address.
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if address.is_loopback:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
