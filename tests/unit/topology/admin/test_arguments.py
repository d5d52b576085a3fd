"""Arguments of commands: what they mean, and what is said about the others."""

from __future__ import annotations

import pytest

from topology.admin.arguments import Place, parse_pairs, parse_partitions, parse_place

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("start", Place("start")),
        ("earliest", Place("start")),
        ("end", Place("end")),
        ("latest", Place("end")),
        ("0", Place("offset", 0)),
        ("42", Place("offset", 42)),
        ("+10", Place("shift", 10)),
        ("-10", Place("shift", -10)),
        ("250ms", Place("time", NOW_MS - 250)),
        ("2h", Place("time", NOW_MS - 7_200_000)),
        ("2026-01-01T01:00:00+01:00", Place("time", 1_767_225_600_000)),
        ("2026-01-01T00:00:00Z", Place("time", 1_767_225_600_000)),
    ],
)
def test_places(text: str, place: Place) -> None:
    assert parse_place(text, NOW_MS) == place


@pytest.mark.parametrize("text", ["", "soon", "2w", "2026-01-01T00:00:00", "+", "1.5"])
def test_other_places_are_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="is not `start`, `end`, an offset such as 42"):
        parse_place(text, NOW_MS)


def test_pairs() -> None:
    assert parse_pairs(["a=1", "b=x=y", "c="], "--config") == {"a": "1", "b": "x=y", "c": ""}
    with pytest.raises(ValueError, match="--config 'a' is not NAME=VALUE"):
        parse_pairs(["a"], "--config")
    with pytest.raises(ValueError, match="names 'a' twice"):
        parse_pairs(["a=1", "a=2"], "--config")


def test_partitions() -> None:
    texts = ["orders", "items:3,0-1"]
    assert parse_partitions(texts) == {"orders": None, "items": [0, 1, 3]}


@pytest.mark.parametrize("text", ["", ":0", "a:", "a:x", "a:1,", "a:3-1", "a:0-999999999"])
def test_other_partitions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_partitions([text])
