"""Public Grafana boards: what stays empty in them is said, and nothing else."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from local_cluster.monitoring import topic_rows
from local_cluster.monitoring.confluent_names import RENAMED
from tests.support.board_metrics import BoardMetric, board_metrics

PAGE = Path(__file__).resolve().parents[4] / "docs" / "operations" / "monitoring.md"
BOARDS = board_metrics()
EVERY = [(board, each) for board, metrics in BOARDS.items() for each in metrics]


def patterns() -> list[str]:
    """Return the names in the page's table of panels that stay empty."""
    chapter = PAGE.read_text().split("## Panels that stay empty", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1] for line in chapter.splitlines() if line.startswith("|")]
    return re.findall(r"`([a-z_*]+)`", " ".join(rows))


def test_each_board_has_metrics_of_ours() -> None:
    assert len(BOARDS) == 7
    for board, metrics in BOARDS.items():
        assert any(each.is_ours for each in metrics), board
        assert len({each.name for each in metrics}) == len(metrics), board


@pytest.mark.parametrize(("board", "metric"), EVERY, ids=lambda each: getattr(each, "name", each))
def test_the_page_names_what_is_not_ours_alone(board: str, metric: BoardMetric) -> None:
    named = [each for each in patterns() if fnmatchcase(metric.name, each)]
    assert bool(named) != metric.is_ours, (board, metric.name, named)


def test_no_pattern_is_left_over() -> None:
    names = [metric.name for _, metric in EVERY]
    unused = [each for each in patterns() if not any(fnmatchcase(name, each) for name in names)]
    assert patterns() and not unused


def test_the_usual_names_are_in_no_board_of_confluent() -> None:
    queried = {each.name for board, each in EVERY if board.startswith("confluent-")}
    assert not queried & RENAMED.keys()
    counters = {each.name for each in topic_rows.HEADS if each.kind == "counter"}
    assert len(queried & {RENAMED[name] for name in counters}) >= 5
