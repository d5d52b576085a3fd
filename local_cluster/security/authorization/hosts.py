"""Hosts of ACLs: one address, "*", or a CIDR block (KIP-1276). Pure.

Kafka compares addresses as Java prints them (InetAddress.getHostAddress): IPv6 in eight groups
without "::", and an IPv4 address that is mapped into IPv6 as IPv4.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from local_cluster.wire.constants import WILDCARD

_IPV4: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})")
_IPV4_BLOCK: Final = re.compile(_IPV4.pattern + r"/([0-9]{1,2})")
_PREFIX_LENGTH: Final = re.compile(r"\+?[0-9]+")


def java_host(address: str) -> str:
    """Return an address as Java prints it; anything else unchanged."""
    if ":" not in address:
        return address
    plain, mark, scope = address.partition("%")
    try:
        parsed = ipaddress.IPv6Address(plain)
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in parsed.exploded.split(":")) + mark + scope


def matches_host(pattern: str, host: str) -> bool:
    """Return whether the host of an ACL covers an address, given as Java prints it.

    A malformed block covers nothing, as in Kafka.
    """
    if pattern in (WILDCARD, host):
        return True
    if "/" not in pattern:
        return False
    try:
        return _is_in_block(pattern, host)
    except ValueError:
        return False


def check_block(pattern: str) -> None:
    """Raise ValueError if a pattern with a "/" is no CIDR block."""
    if ":" in pattern:
        _ipv6_block(pattern)
    else:
        _ipv4_block(pattern)


def _is_in_block(pattern: str, host: str) -> bool:
    if ":" in pattern:
        network, mask = _ipv6_block(pattern)
        return _ipv6(host) & mask == network
    network, mask = _ipv4_block(pattern)
    found = _IPV4.fullmatch(host)
    # Kafka's library says that 0.0.0.0 is in no block.
    address = _ipv4(found)
    return address != 0 and address & mask == network


def _ipv4_block(pattern: str) -> tuple[int, int]:
    """Return (network, mask)."""
    found = _IPV4_BLOCK.fullmatch(pattern)
    address = _ipv4(found)
    assert found is not None, "the address was read from it"
    prefix_length = int(found[5])
    if prefix_length > ipaddress.IPV4LENGTH:
        raise ValueError(f"Value [{prefix_length}] not in range [0,32]")
    mask = (0xFFFFFFFF << (ipaddress.IPV4LENGTH - prefix_length)) & 0xFFFFFFFF
    return address & mask, mask


def _ipv4(found: re.Match[str] | None) -> int:
    """Return the address in the first four groups. Leading zeros are decimal, as in Kafka."""
    if found is None:
        raise ValueError("not an IPv4 address")
    octets = [int(found[group]) for group in range(1, 5)]
    if max(octets) > 255:
        raise ValueError(f"Value [{max(octets)}] not in range [0,255]")
    return int.from_bytes(octets, "big")


def _ipv6_block(pattern: str) -> tuple[int, int]:
    """Return (network, mask)."""
    address, _, prefix = pattern.partition("/")
    if not _PREFIX_LENGTH.fullmatch(prefix):
        raise ValueError(f"Could not parse [{pattern}] - invalid prefix length")
    prefix_length = int(prefix)
    if prefix_length > ipaddress.IPV6LENGTH:
        raise ValueError(f"Could not parse [{pattern}] - prefix length must be between 0 and 128")
    all_ones = (1 << ipaddress.IPV6LENGTH) - 1
    mask = (all_ones << (ipaddress.IPV6LENGTH - prefix_length)) & all_ones
    return _ipv6(address) & mask, mask


def _ipv6(address: str) -> int:
    parsed = ipaddress.IPv6Address(address)
    if parsed.ipv4_mapped is not None:
        raise ValueError(f"Could not parse [{address}] - not an IPv6 address")
    return int(parsed)
