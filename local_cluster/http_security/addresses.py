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
