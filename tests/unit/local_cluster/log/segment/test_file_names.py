"""Which names are those of a segment's files."""

from __future__ import annotations

from local_cluster.log.segment.file_names import LOG_SUFFIX, file_name, parse_offsets


def test_names_are_those_of_offsets() -> None:
    offsets = [0, 14, 2**63 - 1]
    assert parse_offsets([file_name(each, LOG_SUFFIX) for each in offsets], LOG_SUFFIX) == offsets
    others = [
        file_name(2**63, LOG_SUFFIX),
        "60000000000000000000.log",
        "0.log",
        "\u0663" * 20 + ".log",
        f"{0:020d}.index",
        f"-{0:019d}.log",
    ]
    assert parse_offsets(others, LOG_SUFFIX) == []
