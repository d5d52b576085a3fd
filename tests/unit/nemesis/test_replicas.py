"""Which topics' replicas are compared: all whose records stay for the whole of a life."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import cast

import pytest

from tests.nemesis.cluster import Cluster
from tests.nemesis.replicas import digests_of, is_compared
from tests.nemesis.workloads.table import WORKLOADS

NOT_COMPARED = {"compaction", "retention-timed", "retention-sized", "mirror-compacted-kept"}


@pytest.mark.parametrize("name", WORKLOADS)
def test_all_but_what_is_compacted_or_deleted_is_compared(name: str, tmp_path: Path) -> None:
    workload = WORKLOADS[name](cast("Cluster", None), tmp_path, 0)
    for topic in workload.topics:
        assert is_compared(topic) == (topic.name not in NOT_COMPARED), topic


def test_the_only_topic_with_acks_1_is_compared(tmp_path: Path) -> None:
    (topic,) = WORKLOADS["list-offsets"](cast("Cluster", None), tmp_path, 0).topics
    assert topic.configs == {"retention.ms": "-1"}
    assert is_compared(topic)


def replica(directory: Path, *segments: list[tuple[int, bytes]]) -> Path:
    directory.mkdir()
    for segment in segments:
        content = b"".join(struct.pack(">qi", base, len(body)) + body for base, body in segment)
        (directory / f"{segment[0][0]:020}.log").write_bytes(content)
    return directory


def test_replicas_are_equal_wherever_their_segments_were_rolled(tmp_path: Path) -> None:
    one = replica(tmp_path / "one", [(0, b"a"), (3, b"b")], [(5, b"c")])
    other = replica(tmp_path / "other", [(0, b"a")], [(3, b"b"), (5, b"c")])
    assert len(set(digests_of([one, other], from_common_start=False))) == 1


def test_a_replica_without_the_first_records_differs_unless_records_are_deleted(
    tmp_path: Path,
) -> None:
    whole = replica(tmp_path / "whole", [(0, b"a"), (3, b"b")], [(5, b"c")])
    started_over = replica(tmp_path / "started-over", [(3, b"b"), (5, b"c")])
    both = [whole, started_over]
    assert len(set(digests_of(both, from_common_start=False))) == 2
    assert len(set(digests_of(both, from_common_start=True))) == 1


def test_records_that_differ_are_seen_though_records_are_deleted(tmp_path: Path) -> None:
    whole = replica(tmp_path / "whole", [(0, b"a"), (3, b"b")], [(5, b"c")])
    altered = replica(tmp_path / "altered", [(3, b"x"), (5, b"c")])
    short = replica(tmp_path / "short", [(3, b"b")])
    assert len(set(digests_of([whole, altered, short], from_common_start=True))) == 3
