"""The config of one log, parsed from the topic's overrides and the broker's configs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from local_cluster.kafka_configs.definition import LONG_MAX
from local_cluster.log.config.description import resolve
from local_cluster.log.config.topic_configs import (
    INTERNAL_SEGMENT_BYTES,
    TOPIC_CONFIGS,
    topic_default,
)
from local_cluster.wire.constants import ConfigSource
from local_cluster.wire.errors import ErrorCode, KafkaError

PRODUCER_ID_EXPIRATION: Final = "producer.id.expiration.ms"
PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
"""Kafka's default: a producer id is forgotten after a day without a batch."""


def _default_int(name: str) -> int:
    return int(topic_default(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The config of one log. -1 stands for no limit."""

    segment_bytes: int = _default_int("segment.bytes")
    segment_ms: int = _default_int("segment.ms")
    segment_jitter_ms: int = _default_int("segment.jitter.ms")
    segment_index_bytes: int = _default_int("segment.index.bytes")
    index_interval_bytes: int = _default_int("index.interval.bytes")
    retention_ms: int = _default_int("retention.ms")
    retention_bytes: int = _default_int("retention.bytes")
    max_message_bytes: int = _default_int("max.message.bytes")
    is_deleted_by_retention: bool = True
    is_compacted: bool = False
    delete_retention_ms: int = _default_int("delete.retention.ms")
    min_cleanable_dirty_ratio: float = float(topic_default("min.cleanable.dirty.ratio"))
    min_compaction_lag_ms: int = _default_int("min.compaction.lag.ms")
    max_compaction_lag_ms: int = _default_int("max.compaction.lag.ms")
    log_append_time: bool = False
    timestamp_before_ms_max: int = _default_int("message.timestamp.before.max.ms")
    timestamp_after_ms_max: int = _default_int("message.timestamp.after.max.ms")
    full_record_check: bool = False
    min_insync_replicas: int = _default_int("min.insync.replicas")
    unclean_leader_election: bool = False
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS

    @staticmethod
    def of(
        topic_overrides: Mapping[str, str] | None = None,
        broker_config: Mapping[str, str] | None = None,
    ) -> LogConfig:
        """Return the config of a topic. Raises KafkaError(invalid_config) that names the config."""
        overrides, broker = topic_overrides or {}, broker_config or {}
        sources = ((ConfigSource.STATIC_BROKER, broker),)
        validate_topic_configs(overrides)

        def text(name: str) -> str:
            value = resolve(TOPIC_CONFIGS[name], overrides, sources)[0].value
            assert value is not None, name
            return value

        policies = {part.strip() for part in text("cleanup.policy").split(",")}
        return LogConfig(
            segment_bytes=int(overrides.get(INTERNAL_SEGMENT_BYTES, text("segment.bytes"))),
            segment_ms=int(text("segment.ms")),
            segment_jitter_ms=int(text("segment.jitter.ms")),
            segment_index_bytes=int(text("segment.index.bytes")),
            index_interval_bytes=int(text("index.interval.bytes")),
            retention_ms=int(text("retention.ms")),
            retention_bytes=int(text("retention.bytes")),
            max_message_bytes=int(text("max.message.bytes")),
            is_deleted_by_retention="delete" in policies,
            is_compacted="compact" in policies,
            delete_retention_ms=int(text("delete.retention.ms")),
            min_cleanable_dirty_ratio=float(text("min.cleanable.dirty.ratio")),
            min_compaction_lag_ms=int(text("min.compaction.lag.ms")),
            max_compaction_lag_ms=int(text("max.compaction.lag.ms")),
            log_append_time=text("message.timestamp.type") == "LogAppendTime",
            timestamp_before_ms_max=int(text("message.timestamp.before.max.ms")),
            timestamp_after_ms_max=int(text("message.timestamp.after.max.ms")),
            full_record_check=text("heliograph.record.check") == "full",
            min_insync_replicas=int(text("min.insync.replicas")),
            unclean_leader_election=text("unclean.leader.election.enable").lower() == "true",
            producer_id_expiration_ms=int(
                broker.get(PRODUCER_ID_EXPIRATION, PRODUCER_ID_EXPIRATION_MS)
            ),
        )


def stored_config(
    topic_overrides: Mapping[str, str], broker_config: Mapping[str, str]
) -> tuple[LogConfig, tuple[str, ...]]:
    """Return the config of a topic that ZooKeeper holds, and the names of the configs ignored.

    Tools of other versions write configs that are not known here, such as message.format.version.
    """
    try:
        return LogConfig.of(topic_overrides, broker_config), ()
    except KafkaError:
        known: dict[str, str] = {}
        ignored = []
        for name, value in sorted(topic_overrides.items()):
            try:
                validate_topic_configs({**known, name: value})
            except KafkaError:
                ignored.append(name)
            else:
                known[name] = value
        return LogConfig.of(known, broker_config), tuple(ignored)


def validate_topic_configs(overrides: Mapping[str, str]) -> None:
    """Raise KafkaError(invalid_config) for an unknown name or a value that is not valid."""
    for name, value in overrides.items():
        config = TOPIC_CONFIGS.get(name)
        if config is None:
            raise KafkaError(ErrorCode.invalid_config, f"Unknown topic config name: {name}")
        config.require(value, name)
    if overrides.get("remote.storage.enable", "").lower() == "true":
        raise KafkaError(
            ErrorCode.invalid_config,
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage (remote.storage.enable).",
        )
    shortest = int(overrides.get("min.compaction.lag.ms", "0"))
    longest = int(overrides.get("max.compaction.lag.ms", LONG_MAX))
    if shortest > longest:
        raise KafkaError(
            ErrorCode.invalid_config,
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > "
            f"max.compaction.lag.ms ({longest})",
        )
