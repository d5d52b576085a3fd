"""The metrics of a supervisor in the Prometheus text format. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from local_cluster.prometheus_text import Family, Sample, counter, gauge, render_family


def metrics_text(report: Mapping[str, Any]) -> str:
    """Return the metrics of the supervisor's report."""
    return "".join(map(render_family, _families(report)))


def _families(report: Mapping[str, Any]) -> tuple[Family, ...]:
    rows = [({"daemon": row["key"], "role": row["role"] or ""}, row) for row in report["daemons"]]
    return (
        gauge(
            "heliograph_supervisor_daemon_running",
            "1 if the process runs and was ready, else 0.",
            *(Sample(float(row["phase"] == "running"), labels) for labels, row in rows),
        ),
        counter(
            "heliograph_supervisor_daemon_restarts_total",
            "Times that the supervisor started the process again.",
            *(Sample(float(row["restarts"]), labels) for labels, row in rows),
        ),
        gauge(
            "heliograph_supervisor_start_time_seconds",
            "When the supervisor began, in seconds since 1970.",
            Sample(report["started_at_ms"] / 1000),
        ),
    )
