"""Rows as cells of tables. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from topology.top.view import BrokerRow, ClusterRow, GroupRow, LinkRow, View

UNKNOWN: Final = "-"
GROUPS_SHOWN: Final = 200
"""Most groups of one table, those with the largest lag."""
CLUSTER_COLUMNS: Final = (
    *("cluster", "kind", "brokers", "controller"),
    *("in/s", "out/s", "records/s", "under-replicated", "offline"),
)
LINK_COLUMNS: Final = (
    *("link", "state", "lag", "behind", "records/s", "bytes/s"),
    *("probe", "probe p99", "reason"),
)
BROKER_COLUMNS: Final = (
    *("broker", "state", "CPU", "memory", "in/s", "out/s"),
    *("partitions", "leads", "connections", "loop p99"),
)
GROUP_COLUMNS: Final = ("group", "cluster", "members", "lag", "behind", "committed/s")
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


class Table(NamedTuple):
    """A table with its title."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables_of(view: View) -> list[Table]:
    """Return the tables of a view, in the order of the screen."""
    return [
        Table("Clusters", CLUSTER_COLUMNS, [_cluster_cells(each) for each in view.clusters]),
        Table("Links", LINK_COLUMNS, [_link_cells(each) for each in view.links]),
        Table("Brokers", BROKER_COLUMNS, [_broker_cells(each) for each in view.brokers]),
        Table("Groups", GROUP_COLUMNS, [_group_cells(each) for each in view.groups[:GROUPS_SHOWN]]),
    ]


def _cluster_cells(row: ClusterRow) -> tuple[str, ...]:
    return (
        row.name,
        row.kind,
        row.brokers,
        _count(row.controller),
        _bytes(row.bytes_in_per_s),
        _bytes(row.bytes_out_per_s),
        _count(row.records_in_per_s),
        _count(row.under_replicated),
        _count(row.offline),
    )


def _link_cells(row: LinkRow) -> tuple[str, ...]:
    return (
        row.name,
        row.state,
        _count(row.lag_records),
        _seconds(row.lag_seconds),
        _count(row.records_per_s),
        _bytes(row.bytes_per_s),
        row.probe or UNKNOWN,
        _milliseconds(row.probe_p99_ms),
        row.reason or "",
    )


def _broker_cells(row: BrokerRow) -> tuple[str, ...]:
    return (
        f"{row.cluster} {row.id}",
        row.state,
        _share(row.cpu_share),
        _bytes(row.memory_bytes),
        _bytes(row.bytes_in_per_s),
        _bytes(row.bytes_out_per_s),
        _count(row.partitions),
        _count(row.leaders),
        _count(row.connections),
        _milliseconds(None if row.loop_delay_s is None else row.loop_delay_s * 1000),
    )


def _group_cells(row: GroupRow) -> tuple[str, ...]:
    return (
        row.name,
        row.cluster,
        _count(row.members),
        _count(row.lag_records),
        _seconds(row.lag_seconds),
        _count(row.committed_per_s),
    )


def headline_of(view: View) -> str:
    """Return the line above the tables: the state, and the worst problem."""
    more = len(view.problems) - 1
    others = f" (and {more} more)" if more > 0 else ""
    return f"{view.name}: {view.state}" + (f"; {view.problems[0]}{others}" if view.problems else "")


def _count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _bytes(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    for unit in _UNITS[:-1]:
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} {_UNITS[-1]}"


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f} s"


def _milliseconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f} ms"


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0%}"
