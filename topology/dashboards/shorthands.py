"""Shorthands of the boards, for labels and rates. Pure."""

from __future__ import annotations

from typing import Final

from topology.dashboards.panels import Panel, Query

OF_CLUSTER: Final = '{cluster=~"$cluster"}'
REPLICAS: Final = "kafka_server_replicamanager_"


def stat(title: str, expr: str, text: str, bad_from: float | None = None) -> Panel:
    """Return a panel with one number, which is red from `bad_from` on."""
    return Panel(title, (Query(expr),), text, kind="stat", bad_from=bad_from)


def rate(name: str, labels: str, by: str) -> str:
    """Return the expression for the rate of a counter, summed by a label."""
    return f"sum by ({by}) (rate({name}{labels}[5m]))"
