"""Znodes that Kafka 3.9.1 wrote (tests/golden)."""

from __future__ import annotations

from pathlib import Path

GOLDEN = Path(__file__).parents[4] / "golden" / "zookeeper_kafka_3_9_1.txt"
STRANGE_PAYLOADS = (
    *(b"", b"[]", b"{", b"\xff", b'{"version":"x"}', b'"a"', b'{"version":1e999}', b"[" * 9_999),
)
"""Payloads that no decoder accepts."""


def kafka_znodes() -> dict[str, bytes]:
    """Return payloads by path."""
    pairs = (line.split(" ", 1) for line in GOLDEN.read_text().splitlines())
    return {path: payload.encode() for path, payload in pairs}
