"""The configuration of one log, and what DescribeConfigs says of it.

A value comes from the topic's override, else from the broker's config under one of its names
there, else from the table's default. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from local_cluster.log.config.config_table import TOPIC_CONFIGS, ConfigType, TopicConfig
from local_cluster.wire.constants import ConfigSource
from local_cluster.wire.errors import ErrorCode, KafkaError

PRODUCER_ID_EXPIRATION: Final = "producer.id.expiration.ms"
PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
"""Kafka's default: a producer id that was idle for a day is forgotten."""


class ConfigSynonym(NamedTuple):
    """One place where a value could come from, the first one winning."""

    name: str
    value: str
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One topic config as DescribeConfigs shows it."""

    name: str
    value: str
    source: ConfigSource
    synonyms: tuple[ConfigSynonym, ...]
    type: ConfigType
    doc: str
    is_default: bool
    read_only: bool
    is_sensitive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """What a log goes by. The defaults are the table's; -1 stands for no limit."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    max_message_bytes: int = 1_048_588
    is_deleted_by_retention: bool = True
    is_compacted: bool = False
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = (1 << 63) - 1
    log_append_time: bool = False
    timestamp_before_ms_max: int = (1 << 63) - 1
    timestamp_after_ms_max: int = 3_600_000
    full_record_check: bool = False
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS

    @staticmethod
    def of(
        topic_overrides: Mapping[str, str] | None = None,
        broker_config: Mapping[str, str] | None = None,
    ) -> LogConfig:
        """The config of a topic. Raises KafkaError(invalid_config) naming the config."""
        overrides, broker = topic_overrides or {}, broker_config or {}
        validate_topic_configs(overrides)

        def text(name: str) -> str:
            return resolve(TOPIC_CONFIGS[name], overrides, broker)[0].value

        policies = {part.strip() for part in text("cleanup.policy").split(",")}
        return LogConfig(
            segment_bytes=int(text("segment.bytes")),
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
    """The config of a topic as ZooKeeper holds it, and the names of what is not gone by.

    Tools of other versions write there what is not known here, such as message.format.version.
    """
    try:
        return LogConfig.of(topic_overrides, broker_config), ()
    except KafkaError:
        known: dict[str, str] = {}
        left_out = []
        for name, value in sorted(topic_overrides.items()):
            try:
                validate_topic_configs({**known, name: value})
            except KafkaError:
                left_out.append(name)
            else:
                known[name] = value
        return LogConfig.of(known, broker_config), tuple(left_out)


def validate_topic_configs(overrides: Mapping[str, str]) -> None:
    """Raises KafkaError(invalid_config) for an unknown name or a value that is out of bounds."""
    for name, value in overrides.items():
        config = TOPIC_CONFIGS.get(name)
        if config is None:
            raise KafkaError(ErrorCode.invalid_config, f"Unknown topic config name: {name}")
        _require(name, config.problem(value), value)
    if overrides.get("remote.storage.enable", "").lower() == "true":
        raise KafkaError(
            ErrorCode.invalid_config,
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage (remote.storage.enable).",
        )
    shortest = int(overrides.get("min.compaction.lag.ms", "0"))
    longest = int(overrides.get("max.compaction.lag.ms", str((1 << 63) - 1)))
    if shortest > longest:
        raise KafkaError(
            ErrorCode.invalid_config,
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > "
            f"max.compaction.lag.ms ({longest})",
        )


def resolve(
    config: TopicConfig, overrides: Mapping[str, str], broker_config: Mapping[str, str]
) -> list[ConfigSynonym]:
    """Every place where the value could come from, the one that counts first.

    Raises KafkaError(invalid_config) where the broker's own config is out of bounds.
    """
    places = []
    if config.name in overrides:
        places.append(
            ConfigSynonym(config.name, overrides[config.name], ConfigSource.DYNAMIC_TOPIC)
        )
    for synonym in config.synonyms:
        value = broker_config.get(synonym.name)
        if value is None:
            continue
        try:
            converted = synonym.convert(value)
        except ValueError as error:
            raise KafkaError(
                ErrorCode.invalid_config, f"{synonym.name}={value}: expected a whole number"
            ) from error
        _require(synonym.name, config.problem(converted), value)
        places.append(ConfigSynonym(synonym.name, converted, ConfigSource.STATIC_BROKER))
    name = config.synonyms[0].name if config.synonyms else config.name
    places.append(ConfigSynonym(name, config.default, ConfigSource.DEFAULT))
    return places


def describe(
    topic_overrides: Mapping[str, str], broker_config: Mapping[str, str]
) -> list[ConfigEntry]:
    """Every topic config with its value and where that comes from, by name."""
    entries = []
    for name in sorted(TOPIC_CONFIGS):
        config = TOPIC_CONFIGS[name]
        places = resolve(config, topic_overrides, broker_config)
        entries.append(
            ConfigEntry(
                name=name,
                value=places[0].value,
                source=places[0].source,
                synonyms=_told(config, places),
                type=config.type,
                doc=config.doc,
                is_default=places[0].source is ConfigSource.DEFAULT,
                read_only=False,
                is_sensitive=False,
            )
        )
    return entries


def _told(config: TopicConfig, places: list[ConfigSynonym]) -> tuple[ConfigSynonym, ...]:
    """The places that DescribeConfigs names: Kafka knows no default of a broker config that
    another one can stand in for (log.retention.ms, .minutes and .hours), nor of none at all."""
    if len(config.synonyms) == 1:
        return tuple(places)
    return tuple(place for place in places if place.source is not ConfigSource.DEFAULT)


def _require(name: str, problem: str | None, value: str) -> None:
    if problem is not None:
        raise KafkaError(
            ErrorCode.invalid_config, f"Invalid value {value} for configuration {name}: {problem}"
        )
