"""The setting that says where a link begins."""

from __future__ import annotations

import pytest

from mirror_maker.rules.start_position import Start, StartKind, mm2_offsets_topic, parse_start
from topology.file.load import parse_topology

TOPOLOGY = """
name: n
clusters:
  - {name: a, external: "a:1"}
  - {name: b, external: "b:1"}
links:
  - {source: a, target: b, topics: [t], settings: {start: %s}}
"""


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Start(StartKind.EARLIEST)),
        ("latest", Start(StartKind.LATEST)),
        ("mm2", Start(StartKind.MM2)),
        ("mm2:connect-offsets", Start(StartKind.MM2, offsets_topic="connect-offsets")),
        ("2026-01-01T00:00:00Z", Start(StartKind.TIMESTAMP, timestamp_ms=1_767_225_600_000)),
        ("2026-01-01T01:00:00.5+01:00", Start(StartKind.TIMESTAMP, timestamp_ms=1_767_225_600_500)),
    ],
)
def test_valid_settings(text: str, start: Start) -> None:
    assert parse_start(text) == start
    written = parse_topology(TOPOLOGY % text).links[0].settings.start
    assert parse_start(written) == start


@pytest.mark.parametrize("text", ["", "now", "mm2:", "2026-01-01", "2026-01-01T00:00:00", "12"])
def test_invalid_settings(text: str) -> None:
    with pytest.raises(ValueError, match="is not earliest"):
        parse_start(text)


def test_the_name_that_mirror_maker_2_uses() -> None:
    assert mm2_offsets_topic("east") == "mm2-offsets.east.internal"
