"""Where an aggregator may ask mirror workers."""

from __future__ import annotations

import pytest

from aggregator.settings import WorkerPlace
from aggregator.worker_places import AllowedPlaces

LOOPBACK = ["::1", "localhost", "127.0.0.1"]
PLACES = AllowedPlaces(
    [
        WorkerPlace(host="10.0.0.2", port=8083),
        WorkerPlace(host="Ewr-3.example"),
        WorkerPlace(host="fd00::0002"),
    ],
    machine="nyc-1",
)
PLACES.addresses = {"ewr-3.example": ["10.0.0.3"]}


@pytest.mark.parametrize(
    ("host", "port", "asked"),
    [
        ("10.0.0.2", 8083, "10.0.0.2"),
        ("ewr-3.EXAMPLE", 1, "ewr-3.example"),
        ("10.0.0.3", 65535, "ewr-3.example"),
        ("fd00::2", 8083, "fd00::2"),
    ],
)
def test_allowed(host: str, port: int, asked: str) -> None:
    assert PLACES.host_to_ask(host, port) == asked


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("10.0.0.2", 8084),
        ("10.0.0.20", 8083),
        ("169.254.169.254", 80),
        ("127.0.0.1", 8083),
        ("localhost", 8083),
        ("::1", 8083),
        ("ewr-3.example.evil", 8083),
        ("evil@10.0.0.2", 8083),
        ("10.0.0.2/..", 8083),
        ("ewr-3.example", 0),
        ("ewr-3.example", 65536),
        ("", 8083),
    ],
)
def test_refused(host: str, port: int) -> None:
    assert PLACES.host_to_ask(host, port) is None


def test_every_loopback_name_means_this_host() -> None:
    here = AllowedPlaces([WorkerPlace(host="127.0.0.1")], machine="nyc-1")
    assert [here.host_to_ask(host, 1) for host in LOOPBACK] == LOOPBACK
    assert here.host_to_ask("nyc-1", 1) is None
    by_name = AllowedPlaces([WorkerPlace(host="nyc-1")], machine="nyc-1")
    assert by_name.host_to_ask("127.0.0.1", 1) == "127.0.0.1", (
        "a worker on this host binds its loopback"
    )
    assert PLACES.names == ["ewr-3.example"] and by_name.names == ["nyc-1"]
