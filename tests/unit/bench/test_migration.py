"""The table of `bench_migration`: both sides of each row, and ours through Kafka's."""

from __future__ import annotations

from tests.bench.bench_migration import longer_rows, table

TIMES = {
    ("to consumer", "Kafka"): [400, 5_000, 600],
    ("to classic", "Kafka"): [100],
    ("to consumer", "ours"): [200, 300, 1_000],
    ("to classic", "ours"): [150],
}


def test_a_row_has_both_sides_and_their_ratios() -> None:
    assert table(TIMES).splitlines()[2:] == [
        "| to consumer | 600 | 5,000 | 300 | 1,000 | 0.50 | 0.20 |",
        "| to classic | 100 | 100 | 150 | 150 | 1.50 | 1.50 |",
    ]


def test_what_takes_longer_is_named() -> None:
    assert longer_rows(TIMES) == ["to classic"]
