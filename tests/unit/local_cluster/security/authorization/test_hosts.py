from __future__ import annotations

import pytest

from local_cluster.security.authorization.hosts import check_block, java_host, matches_host


@pytest.mark.parametrize(
    ("address", "printed"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::a0", "2001:db8:0:0:0:0:0:a0"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("a host", "a host"),
        ("not:an:address", "not:an:address"),
    ],
)
def test_addresses_as_java_prints_them(address: str, printed: str) -> None:
    assert java_host(address) == printed


@pytest.mark.parametrize(
    ("pattern", "host", "covers"),
    [
        ("*", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.4", False),
        ("10.1.0.0/16", "10.1.2.3", True),
        ("10.1.9.9/16", "10.1.2.3", True),
        ("10.2.0.0/16", "10.1.2.3", False),
        ("0.0.0.0/0", "10.1.2.3", True),
        ("0.0.0.0/0", "0.0.0.0", False),
        ("::1", "0:0:0:0:0:0:0:1", False),
        ("2001:db8::/32", "2001:db8:0:0:0:0:0:1", True),
        ("2001:db8::/32", "10.1.2.3", False),
        ("10.0.0.0/33", "10.1.2.3", False),
        ("10.0.0.256/8", "10.1.2.3", False),
    ],
)
def test_hosts_of_acls(pattern: str, host: str, covers: bool) -> None:
    assert matches_host(pattern, host) is covers


@pytest.mark.parametrize("pattern", ["/", "10.0.0.0/33", "10.0.0/8", "::/129", "::/x", "1.2.3.4/-"])
def test_malformed_blocks(pattern: str) -> None:
    with pytest.raises(ValueError):
        check_block(pattern)


@pytest.mark.parametrize("pattern", ["10.0.0.0/8", "::/0", "2001:db8::1/128"])
def test_blocks(pattern: str) -> None:
    check_block(pattern)
