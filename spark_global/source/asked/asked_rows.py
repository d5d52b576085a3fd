"""The tables of what clusters answer about groups and topics, as Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from spark_global.source.asked.configs import TopicSettings
from spark_global.source.asked.groups import GroupPosition
from spark_global.source.tables import GROUPS, LAG, TOPIC_CONFIGS


def group_rows(positions: list[GroupPosition]) -> pa.RecordBatch:
    """Return the table `groups`: one row per group and partition with a commit."""
    rows = [_group_fields(each) for each in positions]
    return pa.RecordBatch.from_pylist(rows, schema=GROUPS)


def lag_rows(positions: list[GroupPosition]) -> pa.RecordBatch:
    """Return the table `lag`: one row per group and partition with a commit."""
    rows = [
        {
            **_group_fields(each),
            "lag": max(0, each.ends.last_stable_offset - each.committed_offset),
        }
        for each in positions
    ]
    return pa.RecordBatch.from_pylist(rows, schema=LAG)


def _group_fields(each: GroupPosition) -> dict[str, object]:
    return {
        "side": each.side,
        "datacenter": each.origin.datacenter,
        "topic": each.origin.topic,
        "partition": each.partition,
        "aggregate_topic": each.aggregate_topic,
        "group": each.group,
        "committed_offset": each.committed_offset,
        "log_start_offset": each.ends.log_start_offset,
        "last_stable_offset": each.ends.last_stable_offset,
    }


def config_rows(settings: Iterable[TopicSettings]) -> pa.RecordBatch:
    """Return the table `topic_configs`: one row per topic, side and config."""
    rows = [
        {
            "side": each.side,
            "datacenter": each.origin.datacenter,
            "topic": each.origin.topic,
            "aggregate_topic": each.aggregate_topic,
            "config": name,
            "config_value": value,
            "is_default": is_default,
        }
        for each in settings
        for name, (value, is_default) in sorted(each.configs.items())
    ]
    return pa.RecordBatch.from_pylist(rows, schema=TOPIC_CONFIGS)
