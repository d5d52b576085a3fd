"""What public Grafana boards query: tests/golden/board_metrics.txt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).resolve().parents[1] / "golden" / "board_metrics.txt"


class BoardMetric(NamedTuple):
    """A metric that a board queries."""

    name: str
    labels: Mapping[str, str]
    """Beside those that Prometheus adds to each target: the regular expression of the values."""
    is_ours: bool

    def is_in(self, series: Iterable[Mapping[str, str]]) -> bool:
        """Return whether one of the series has all labels, with such values."""
        return any(
            all(
                name in has and re.fullmatch(values, has[name])
                for name, values in self.labels.items()
            )
            for has in series
        )


def board_metrics() -> Mapping[str, list[BoardMetric]]:
    """Return the metrics of each board, by its name in the file."""
    boards: dict[str, list[BoardMetric]] = {}
    for line in FILE.read_text().splitlines():
        if line.startswith("["):
            board = boards.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            is_ours = not line.startswith("- ")
            name, *labels = line.removeprefix("- ").split()
            parts = (each.partition("=~") for each in labels)
            chosen = {label: values or ".*" for label, _, values in parts}
            board.append(BoardMetric(name, chosen, is_ours))
    return boards
