"""Panels of a dashboard, and their JSON for Grafana. Pure.

The data source is a variable, so that a dashboard can be imported into any Grafana from version 10.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

JsonObject = dict[str, Any]

SCHEMA_VERSION: Final = 39
"""Of Grafana 10's dashboards."""
DATA_SOURCE: Final = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
COLUMNS: Final = 24
REFRESH: Final = "30s"

Unit = Literal["short", "bytes", "Bps", "ops", "s", "ms", "percentunit"]
"""Grafana's names of units."""


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression; `legend` names its series by their labels."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture. `kind` is Grafana's: a number, or curves."""

    title: str
    queries: tuple[Query, ...]
    text: str
    """What it shows, and which values are bad."""
    unit: Unit = "short"
    kind: Literal["stat", "timeseries"] = "timeseries"
    bad_from: float | None = None
    """A number from here on is red; None: no number is."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of a dashboard: the values of a label of a metric."""

    name: str
    metric: str
    label: str
    is_many: bool = True


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard."""

    uid: str
    title: str
    variables: tuple[Variable, ...]
    panels: tuple[Panel, ...]


def board_json(board: Board) -> JsonObject:
    """Return the dashboard as Grafana imports it."""
    return {
        "uid": board.uid,
        "title": board.title,
        "tags": ["heliograph"],
        "schemaVersion": SCHEMA_VERSION,
        "refresh": REFRESH,
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables(board.variables))},
        "panels": list(_panels(board.panels)),
    }


def _variables(variables: Sequence[Variable]) -> Iterator[JsonObject]:
    yield {
        "name": "DS_PROMETHEUS",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }
    for each in variables:
        query = f"label_values({each.metric}, {each.label})"
        yield {
            "name": each.name,
            "type": "query",
            "datasource": DATA_SOURCE,
            "query": {"query": query, "refId": each.name},
            "definition": query,
            "refresh": 2,
            "sort": 1,
            "multi": each.is_many,
            "includeAll": each.is_many,
            "allValue": ".*" if each.is_many else None,
            "current": {"text": "All", "value": "$__all"} if each.is_many else {},
        }


def _panels(panels: Sequence[Panel]) -> Iterator[JsonObject]:
    x = y = row_height = 0
    for number, panel in enumerate(panels, start=1):
        width, height = (4, 4) if panel.kind == "stat" else (12, 8)
        if x + width > COLUMNS or (row_height and height != row_height):
            x, y = 0, y + row_height
        row_height = height
        steps: list[JsonObject] = [{"color": "green", "value": None}]
        if panel.bad_from is not None:
            steps.append({"color": "red", "value": panel.bad_from})
        yield {
            "id": number,
            "type": panel.kind,
            "title": panel.title,
            "description": panel.text,
            "datasource": DATA_SOURCE,
            "gridPos": {"x": x, "y": y, "w": width, "h": height},
            "fieldConfig": {
                "defaults": {
                    "unit": panel.unit,
                    "noValue": "unknown",
                    "thresholds": {"mode": "absolute", "steps": steps},
                },
                "overrides": [],
            },
            "targets": [
                {
                    "refId": chr(ord("A") + index),
                    "datasource": DATA_SOURCE,
                    "expr": query.expr,
                    "legendFormat": query.legend or "__auto",
                }
                for index, query in enumerate(panel.queries)
            ],
        }
        x += width
