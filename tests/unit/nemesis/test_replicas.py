"""Which topics' replicas are compared: all whose records stay for the whole of a life."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tests.nemesis.cluster import Cluster
from tests.nemesis.replicas import is_compared
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
