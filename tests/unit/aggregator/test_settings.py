"""Settings refuse unknown keys and name them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from aggregator.settings import parse_settings, render_settings

_LINK: dict[str, Any] = {
    "name": "jfk-nyc",
    "datacenter": "jfk",
    "source": "jfk",
    "source_bootstrap": "127.0.0.1:9093",
}
_SETTINGS: dict[str, Any] = {
    "aggregate": "nyc",
    "bootstrap": "127.0.0.1:9092",
    "links": [_LINK],
    "http_port": 8080,
    "ready_file": "ready.json",
}


def test_round_trip() -> None:
    settings = parse_settings(json.dumps(_SETTINGS))
    assert settings.links[0].source_topic("jfk.flights") == "flights"
    assert settings.links[0].source_topic("ewr.flights") is None
    assert settings.http_host == "127.0.0.1"
    assert parse_settings(render_settings(settings)) == settings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bootsrap": "x"}, "bootsrap"),
        ({"aggregate": 3}, "aggregate"),
        ({"links": [{**_LINK, "topics": []}]}, "topics"),
        ({"links": [{**_LINK, "names": {"otherwise": "same"}}]}, "names"),
        ({"probe": {"interval": 3}}, "interval"),
        ({"probe": {"interval_ms": 0}}, "interval_ms"),
        ({"probe": {"segment_bytes": 1000}}, "segment_bytes"),
        ({"probe": {"interval_ms": 20_000}}, "silent_ms is 30000; it must be at least 3 times"),
        ({"links": [_LINK, _LINK]}, "2 links have the name 'jfk-nyc'"),
        ({"links": [_LINK, {**_LINK, "name": "b"}]}, "2 links have the source 'jfk'"),
    ],
)
def test_errors_name_the_key(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        parse_settings(json.dumps(_SETTINGS | change))
