"""Every topic config that this broker knows: name, type, default, bounds, broker-level names.

Names, types, defaults and synonyms are those of Kafka 4.3's LogConfig, TopicConfig and
ServerTopicConfigSynonyms. Looser than Kafka: segment.bytes may be as small as Kafka 3.9 allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1
DAY_MS: Final = 24 * 60 * 60 * 1000


class ConfigType(IntEnum):
    """Types of configs by their number in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


def _same(value: str) -> str:
    return value


def _hours_to_ms(value: str) -> str:
    return str(int(value) * 3_600_000)


def _minutes_to_ms(value: str) -> str:
    return str(int(value) * 60_000)


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker config that gives the default of a topic config."""

    name: str
    convert: Callable[[str], str] = _same


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """One topic config. `minimum` and `maximum` bound numbers, `choices` strings and lists."""

    name: str
    type: ConfigType
    default: str
    synonyms: tuple[Synonym, ...]
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: frozenset[str] | None = None
    is_replica_list: bool = False
    """A list of partition:broker, or `*` (KIP-73)."""

    def problem(self, value: str) -> str | None:
        """What is wrong with a value, None if nothing is."""
        match self.type:
            case ConfigType.BOOLEAN:
                return (
                    None
                    if value.lower() in ("true", "false")
                    else "Expected value to be either true or false"
                )
            case ConfigType.INT | ConfigType.LONG:
                return self._number_problem(value)
            case ConfigType.DOUBLE:
                try:
                    return self._range_problem(float(value))
                except ValueError:
                    return "Not a number of type DOUBLE"
            case ConfigType.STRING:
                return self._choice_problem([value])
            case ConfigType.LIST:
                parts = [part.strip() for part in value.split(",")] if value.strip() else []
                if self.is_replica_list and not _names_replicas(parts):
                    return (
                        f"{self.name} must be the literal '*' or a list of replicas in the "
                        "following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
                    )
                return self._choice_problem(parts)
        raise AssertionError(self.type)

    def _number_problem(self, value: str) -> str | None:
        try:
            number = int(value)
        except ValueError:
            return f"Not a number of type {self.type.name}"
        limit = INT_MAX if self.type is ConfigType.INT else LONG_MAX
        if not -limit - 1 <= number <= limit:
            return f"Not a number of type {self.type.name}"
        return self._range_problem(number)

    def _range_problem(self, number: float) -> str | None:
        if self.minimum is not None and not number >= self.minimum:
            return f"Value must be at least {self.minimum:g}"
        if self.maximum is not None and not number <= self.maximum:
            return f"Value must be no more than {self.maximum:g}"
        return None

    def _choice_problem(self, parts: list[str]) -> str | None:
        if self.choices is None or all(part in self.choices for part in parts):
            return None
        return f"String must be one of: {', '.join(sorted(self.choices))}"


def _names_replicas(parts: list[str]) -> bool:
    return parts == ["*"] or all(re.fullmatch("([0-9]+:[0-9]+)?", part) for part in parts)


def _boolean(name: str, default: bool, synonym: str, doc: str) -> TopicConfig:
    return TopicConfig(
        name=name,
        type=ConfigType.BOOLEAN,
        default=str(default).lower(),
        synonyms=(Synonym(synonym),),
        doc=doc,
    )


def _number(
    kind: ConfigType,
    name: str,
    default: float,
    synonyms: str | tuple[Synonym, ...],
    doc: str,
    minimum: float | None = None,
    maximum: float | None = None,
) -> TopicConfig:
    return TopicConfig(
        name=name,
        type=kind,
        default=str(default),
        synonyms=(Synonym(synonyms),) if isinstance(synonyms, str) else synonyms,
        doc=doc,
        minimum=minimum,
        maximum=maximum,
    )


def _choice(
    kind: ConfigType, name: str, default: str, choices: str, synonym: str, doc: str
) -> TopicConfig:
    return TopicConfig(
        name=name,
        type=kind,
        default=default,
        synonyms=(Synonym(synonym),),
        doc=doc,
        choices=frozenset(choices.split()),
    )


_I, _L = ConfigType.INT, ConfigType.LONG

_ALL: Final = (
    _choice(
        ConfigType.LIST,
        "cleanup.policy",
        "delete",
        "compact delete",
        "log.cleanup.policy",
        "What becomes of old segments: delete drops them by age and size, compact keeps the newest"
        " record of every key.",
    ),
    _choice(
        ConfigType.STRING,
        "compression.type",
        "producer",
        "uncompressed zstd lz4 snappy gzip producer",
        "compression.type",
        "Kept for tools; batches always stay in the compression of their producer.",
    ),
    *(
        _number(
            _I,
            f"compression.{codec}.level",
            default,
            f"compression.{codec}.level",
            "Kept for tools; batches always stay in the compression of their producer.",
            lowest,
            highest,
        )
        for codec, default, lowest, highest in (
            ("gzip", -1, -1, 9),
            ("lz4", 9, 1, 17),
            ("zstd", 3, -131_072, 22),
        )
    ),
    _number(
        _L,
        "delete.retention.ms",
        DAY_MS,
        "log.cleaner.delete.retention.ms",
        "How long tombstones of a compacted topic are kept.",
        0,
    ),
    _number(
        _L,
        "file.delete.delay.ms",
        60_000,
        "log.segment.delete.delay.ms",
        "Kept for tools; readers hold deleted segments open, so files go at once.",
        0,
    ),
    _number(
        _L,
        "flush.messages",
        LONG_MAX,
        "log.flush.interval.messages",
        "Kept for tools; the flush mode of the broker decides.",
        1,
    ),
    _number(
        _L,
        "flush.ms",
        LONG_MAX,
        (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
        "Kept for tools; the flush mode of the broker decides.",
        0,
    ),
    *(
        TopicConfig(
            name=f"{side}.replication.throttled.replicas",
            type=ConfigType.LIST,
            default="",
            synonyms=(),
            doc="Replicas (partition:broker,... or *) that are throttled while not in sync, where"
            f" their broker is the {side}.",
            is_replica_list=True,
        )
        for side in ("follower", "leader")
    ),
    _choice(
        ConfigType.STRING,
        "heliograph.record.check",
        "header",
        "header full",
        "heliograph.log.record.check",
        "header: produced batches are judged by header and CRC; full: every record is opened and"
        " compared with its header, as Kafka does, at the cost of a decode in Python.",
    ),
    _number(
        _I,
        "index.interval.bytes",
        4096,
        "log.index.interval.bytes",
        "Bytes of the log between two entries of the sparse index.",
        0,
    ),
    *(
        _number(
            _L,
            f"local.retention.{unit}",
            -2,
            f"log.local.retention.{unit}",
            "Kept for tools; without tiered storage everything is local.",
            -2,
        )
        for unit in ("bytes", "ms")
    ),
    _number(
        _L,
        "max.compaction.lag.ms",
        LONG_MAX,
        "log.cleaner.max.compaction.lag.ms",
        "The longest that a record may stay uncompacted.",
        1,
    ),
    _number(
        _I,
        "max.message.bytes",
        1_048_588,
        "message.max.bytes",
        "The largest record batch, after compression, that the topic takes.",
        0,
    ),
    _number(
        _L,
        "message.timestamp.after.max.ms",
        3_600_000,
        "log.message.timestamp.after.max.ms",
        "How far the time of a record may lie ahead of the broker's clock (CreateTime).",
        0,
    ),
    _number(
        _L,
        "message.timestamp.before.max.ms",
        LONG_MAX,
        "log.message.timestamp.before.max.ms",
        "How far the time of a record may lie behind the broker's clock (CreateTime).",
        0,
    ),
    _choice(
        ConfigType.STRING,
        "message.timestamp.type",
        "CreateTime",
        "CreateTime LogAppendTime",
        "log.message.timestamp.type",
        "Whether records keep the time of their producer or get that of the broker.",
    ),
    _number(
        ConfigType.DOUBLE,
        "min.cleanable.dirty.ratio",
        0.5,
        "log.cleaner.min.cleanable.ratio",
        "The share of uncompacted bytes that makes a log worth compacting.",
        0,
        1,
    ),
    _number(
        _L,
        "min.compaction.lag.ms",
        0,
        "log.cleaner.min.compaction.lag.ms",
        "The shortest time that a record stays uncompacted.",
        0,
    ),
    _number(
        _I,
        "min.insync.replicas",
        1,
        "min.insync.replicas",
        "In-sync replicas that must have a record before acks=all is answered.",
        1,
    ),
    _boolean(
        "preallocate", False, "log.preallocate", "Kept for tools; files are never preallocated."
    ),
    *(
        TopicConfig(
            name=name,
            type=ConfigType.BOOLEAN,
            default="false",
            synonyms=(),
            doc="Kept for tools; there is no tiered storage.",
        )
        for name in (
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
            "remote.storage.enable",
        )
    ),
    _number(
        _L,
        "retention.bytes",
        -1,
        "log.retention.bytes",
        "Size of a partition beyond which old segments are deleted; -1 for no limit.",
    ),
    _number(
        _L,
        "retention.ms",
        7 * DAY_MS,
        (
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", _minutes_to_ms),
            Synonym("log.retention.hours", _hours_to_ms),
        ),
        "Age, by the largest timestamp, beyond which segments are deleted; -1 for no limit.",
        -1,
    ),
    _number(
        _I,
        "segment.bytes",
        1 << 30,
        "log.segment.bytes",
        "Size at which a new segment begins.",
        14,
    ),
    _number(
        _I,
        "segment.index.bytes",
        10 << 20,
        "log.index.size.max.bytes",
        "Size of an index at which a new segment begins.",
        4,
    ),
    _number(
        _L,
        "segment.jitter.ms",
        0,
        (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _hours_to_ms)),
        "The most by which segment.ms is shortened, so that partitions do not roll together.",
        0,
    ),
    _number(
        _L,
        "segment.ms",
        7 * DAY_MS,
        (Synonym("log.roll.ms"), Synonym("log.roll.hours", _hours_to_ms)),
        "Span of record time after which a new segment begins.",
        1,
    ),
    _boolean(
        "unclean.leader.election.enable",
        False,
        "unclean.leader.election.enable",
        "Whether a replica that may lack committed records may lead when no other can.",
    ),
)

TOPIC_CONFIGS: Final[dict[str, TopicConfig]] = {config.name: config for config in _ALL}
