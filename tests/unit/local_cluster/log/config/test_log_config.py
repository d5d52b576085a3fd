"""Topic configs: where a value comes from, what is refused, what DescribeConfigs shows."""

from __future__ import annotations

import dataclasses

import pytest

from local_cluster.log.config.description import describe
from local_cluster.log.config.log_config import LogConfig, stored_config, validate_topic_configs
from local_cluster.log.config.topic_configs import TOPIC_CONFIGS
from local_cluster.wire.constants import ConfigSource
from local_cluster.wire.errors import ErrorCode, KafkaError


def test_the_defaults_of_the_dataclass_are_those_of_the_table() -> None:
    assert LogConfig.of({}, {}) == LogConfig()


def test_every_default_is_valid() -> None:
    shown = [config for config in TOPIC_CONFIGS.values() if not config.is_internal]
    assert [config.name for config in shown if config.problem(config.default or "")] == []


def test_topic_overrides_win_over_broker_configs_and_finer_units_over_coarser() -> None:
    broker = {"log.retention.hours": "2", "log.segment.bytes": "2000000"}
    assert LogConfig.of({}, broker).retention_ms == 7_200_000
    broker["log.retention.minutes"] = "3"
    assert LogConfig.of({}, broker).retention_ms == 180_000
    broker["log.retention.ms"] = "5"
    assert LogConfig.of({}, broker).retention_ms == 5
    config = LogConfig.of({"retention.ms": "-1"}, broker)
    assert config.retention_ms == -1
    assert config.segment_bytes == 2_000_000


def test_policies_and_times() -> None:
    config = LogConfig.of({"cleanup.policy": "compact, delete"})
    assert config.is_compacted
    assert config.is_deleted_by_retention
    config = LogConfig.of(
        {
            "cleanup.policy": "compact",
            "message.timestamp.type": "LogAppendTime",
            "heliograph.record.check": "full",
            "unclean.leader.election.enable": "TRUE",
        }
    )
    assert config == dataclasses.replace(
        LogConfig(),
        is_compacted=True,
        is_deleted_by_retention=False,
        log_append_time=True,
        full_record_check=True,
        unclean_leader_election=True,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such.config", "1"),
        ("retention.ms", "-2"),
        ("retention.ms", "soon"),
        ("segment.bytes", "1048575"),
        ("internal.segment.bytes", "13"),
        ("segment.bytes", str(1 << 31)),
        ("segment.ms", "0"),
        ("cleanup.policy", "compact,drop"),
        ("cleanup.policy", "compact,"),
        ("remote.storage.enable", "true"),
        ("message.timestamp.type", "createtime"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.insync.replicas", "0"),
        ("preallocate", "yes"),
        ("compression.type", "brotli"),
    ],
)
def test_bad_configs_are_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(KafkaError) as refused:
        validate_topic_configs({name: value})
    assert refused.value.code is ErrorCode.invalid_config
    assert name in refused.value.message


def test_contradicting_compaction_lags_are_refused() -> None:
    with pytest.raises(KafkaError):
        validate_topic_configs({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"})


def test_a_bad_broker_config_is_named() -> None:
    for value in ("many", "0"):
        with pytest.raises(KafkaError) as refused:
            LogConfig.of({}, {"log.roll.hours": value})
        assert "log.roll.hours" in refused.value.message


def test_describe_shows_the_source_of_each_value() -> None:
    static = {"log.retention.hours": "1"}
    sources = ((ConfigSource.STATIC_BROKER, static),)
    entries = {entry.name: entry for entry in describe({"retention.ms": "7"}, sources)}
    assert list(entries) == sorted(TOPIC_CONFIGS.keys() - {"internal.segment.bytes"})
    entry = entries["retention.ms"]
    assert (entry.value, entry.source, entry.is_default) == (
        "7",
        ConfigSource.DYNAMIC_TOPIC,
        False,
    )
    assert entry.synonyms == (
        ("retention.ms", "7", ConfigSource.DYNAMIC_TOPIC),
        ("log.retention.hours", "3600000", ConfigSource.STATIC_BROKER),
    )
    assert entries["segment.bytes"].is_default
    assert entries["segment.bytes"].value == str(1 << 30)


@pytest.mark.parametrize(
    ("stored", "retention_ms", "left_out"),
    [
        ({"retention.ms": "5"}, 5, ()),
        ({"retention.ms": "5", "message.format.version": "2.8"}, 5, ("message.format.version",)),
        ({"retention.ms": "soon", "segment.ms": "9"}, 604_800_000, ("retention.ms",)),
        (
            {"max.compaction.lag.ms": "1", "min.compaction.lag.ms": "2", "retention.ms": "5"},
            5,
            ("min.compaction.lag.ms",),
        ),
    ],
)
def test_unknown_configs_of_an_outside_tool_are_ignored(
    stored: dict[str, str], retention_ms: int, left_out: tuple[str, ...]
) -> None:
    config, names = stored_config(stored, {})
    assert (config.retention_ms, names) == (retention_ms, left_out)


def test_the_internal_segment_size_wins_and_is_shown_only_where_it_is_set() -> None:
    overrides = {"segment.bytes": "2000000", "internal.segment.bytes": "20"}
    assert LogConfig.of(overrides).segment_bytes == 20
    entries = {entry.name: entry for entry in describe(overrides, ())}
    assert entries["segment.bytes"].value == "2000000"
    assert entries["internal.segment.bytes"].synonyms == (
        ("internal.segment.bytes", "20", ConfigSource.DYNAMIC_TOPIC),
    )
