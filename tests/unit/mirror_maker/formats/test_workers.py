"""The address of a worker from its own machine and from others."""

from __future__ import annotations

import pytest

from mirror_maker.formats.workers import WorkerAddress, encode_document, worker_address

CLIENT_HOST = "10.0.0.7"


@pytest.mark.parametrize(
    ("bound", "here", "host"),
    [
        ("127.0.0.1", "ewr-3", "127.0.0.1"),
        ("127.0.0.1", "ewr-4", None),
        ("::1", "ewr-3", "::1"),
        ("::1", "ewr-4", None),
        ("localhost", "ewr-4", None),
        ("0.0.0.0", "ewr-3", "127.0.0.1"),
        ("0.0.0.0", "ewr-4", "10.0.0.7"),
        ("::", "ewr-3", "::1"),
        ("::", "ewr-4", "10.0.0.7"),
        ("ewr-3.example", "ewr-4", "ewr-3.example"),
        ("10.1.0.3", "ewr-4", "10.1.0.3"),
    ],
)
def test_the_address_from_each_machine(bound: str, here: str, host: str | None) -> None:
    assert WorkerAddress(bound, 8083, "ewr-3").host_from(CLIENT_HOST, here) == host


@pytest.mark.parametrize(
    "subscription",
    [
        *(b"", b"\2{}", b"\1[]", b"\1{", encode_document({"http": {"port": 1}})),
        b"\1" + b"[" * 100_000,
        encode_document({"http": {"host": "h", "port": 65_536, "machine": "m"}}),
        encode_document({"http": {"host": 7, "port": 1, "machine": "m"}}),
    ],
    ids=[
        *("nothing", "another version", "a list", "half of it", "half an address"),
        *("nested deeply", "no port", "no host"),
    ],
)
def test_bytes_that_are_not_a_subscription_are_refused(subscription: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        worker_address(subscription)
