"""Every topic config that this broker knows.

Names, types, defaults and synonyms are those of Kafka 4.3's LogConfig, TopicConfig and
ServerTopicConfigSynonyms. There is one looser bound: segment.bytes may be as small as in Kafka 3.9.
"""

from __future__ import annotations

from typing import Final

from local_cluster.log.config.definition import (
    LONG_MAX,
    ConfigType,
    Synonym,
    TopicConfig,
)

MESSAGE_BYTES_MAX: Final = 1_048_588
"""Kafka's default of message.max.bytes: one MiB and the overhead of a batch in the log."""

_DAY_MS: Final = 24 * 60 * 60 * 1000


def _hours_to_ms(value: str) -> str:
    return str(int(value) * 3_600_000)


def _minutes_to_ms(value: str) -> str:
    return str(int(value) * 60_000)


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
    default: int | str,
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


def _ignored(kind: ConfigType, name: str, default: str, why: str) -> TopicConfig:
    return TopicConfig(
        name=name, type=kind, default=default, synonyms=(), doc=f"Has no effect: {why}."
    )


_I, _L = ConfigType.INT, ConfigType.LONG

_ALL: Final = (
    _choice(
        ConfigType.LIST,
        "cleanup.policy",
        "delete",
        "compact delete",
        "log.cleanup.policy",
        "How old records are removed: delete removes segments by age and size, compact keeps the"
        " latest record of every key.",
    ),
    _choice(
        ConfigType.STRING,
        "compression.type",
        "producer",
        "uncompressed zstd lz4 snappy gzip producer",
        "compression.type",
        "Has no effect: batches keep the compression of their producer.",
    ),
    *(
        _number(
            _I,
            f"compression.{codec}.level",
            default,
            f"compression.{codec}.level",
            "Has no effect: batches keep the compression of their producer.",
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
        _DAY_MS,
        "log.cleaner.delete.retention.ms",
        "How long a compacted topic keeps tombstones.",
        0,
    ),
    _ignored(
        ConfigType.BOOLEAN,
        "errors.deadletterqueue.group.enable",
        "false",
        "there are no share groups",
    ),
    _number(
        _L,
        "file.delete.delay.ms",
        60_000,
        "log.segment.delete.delay.ms",
        "Has no effect: segment files are deleted at once; a reader keeps its file open.",
        0,
    ),
    _number(
        _L,
        "flush.messages",
        LONG_MAX,
        "log.flush.interval.messages",
        "Has no effect: the flush mode of the broker decides.",
        1,
    ),
    _number(
        _L,
        "flush.ms",
        LONG_MAX,
        (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
        "Has no effect: the flush mode of the broker decides.",
        0,
    ),
    *(
        TopicConfig(
            name=f"{side}.replication.throttled.replicas",
            type=ConfigType.LIST,
            default="",
            synonyms=(),
            doc=f"Replicas whose replication traffic their {side} throttles while they are not in"
            " sync: partition:broker,... or *.",
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
        "What is checked in produced batches. header: the header and the CRC. full: every record"
        " too, as in Kafka, which costs a decode in Python.",
    ),
    _number(
        _I,
        "index.interval.bytes",
        4096,
        "log.index.interval.bytes",
        "Bytes of the log between two entries of an index.",
        0,
    ),
    *(
        _number(
            _L,
            f"local.retention.{unit}",
            -2,
            f"log.local.retention.{unit}",
            "Has no effect: there is no tiered storage.",
            -2,
        )
        for unit in ("bytes", "ms")
    ),
    _number(
        _L,
        "max.compaction.lag.ms",
        LONG_MAX,
        "log.cleaner.max.compaction.lag.ms",
        "The longest time that a record may stay uncompacted.",
        1,
    ),
    _ignored(
        _I, "max.decompressed.message.bytes", "2147483639", "decompression has a limit of its own"
    ),
    _number(
        _I,
        "max.message.bytes",
        MESSAGE_BYTES_MAX,
        "message.max.bytes",
        "The largest record batch that the topic accepts, in bytes after compression.",
        0,
    ),
    _number(
        _L,
        "message.timestamp.after.max.ms",
        3_600_000,
        "log.message.timestamp.after.max.ms",
        "How far a record's timestamp may be ahead of the broker's clock (CreateTime only).",
        0,
    ),
    _number(
        _L,
        "message.timestamp.before.max.ms",
        LONG_MAX,
        "log.message.timestamp.before.max.ms",
        "How far a record's timestamp may be behind the broker's clock (CreateTime only).",
        0,
    ),
    _choice(
        ConfigType.STRING,
        "message.timestamp.type",
        "CreateTime",
        "CreateTime LogAppendTime",
        "log.message.timestamp.type",
        "Whether records keep the producer's timestamp or get the broker's time of the append.",
    ),
    _number(
        ConfigType.DOUBLE,
        "min.cleanable.dirty.ratio",
        "0.5",
        "log.cleaner.min.cleanable.ratio",
        "The share of uncompacted bytes from which on a log is compacted.",
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
        "How many replicas must be in sync for a produce request with acks=all.",
        1,
    ),
    _boolean(
        "preallocate", False, "log.preallocate", "Has no effect: files are never preallocated."
    ),
    *(
        _ignored(kind, name, default, "there is no tiered storage")
        for kind, name, default in (
            (_L, "remote.copy.lag.bytes", "-1"),
            (_L, "remote.copy.lag.ms", "0"),
            (ConfigType.BOOLEAN, "remote.log.copy.disable", "false"),
            (ConfigType.BOOLEAN, "remote.log.delete.on.disable", "false"),
            (ConfigType.BOOLEAN, "remote.storage.enable", "false"),
        )
    ),
    _number(
        _L,
        "retention.bytes",
        -1,
        "log.retention.bytes",
        "The size of a partition above which old segments are deleted; -1 for no limit.",
    ),
    _number(
        _L,
        "retention.ms",
        7 * _DAY_MS,
        (
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", _minutes_to_ms),
            Synonym("log.retention.hours", _hours_to_ms),
        ),
        "The age above which segments are deleted, by their largest timestamp; -1 for no limit.",
        -1,
    ),
    _number(
        _I,
        "segment.bytes",
        1 << 30,
        "log.segment.bytes",
        "The size at which a segment is closed and a new one starts.",
        14,
    ),
    _number(
        _I,
        "segment.index.bytes",
        10 << 20,
        "log.index.size.max.bytes",
        "The size of an index at which a new segment starts.",
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
        7 * _DAY_MS,
        (Synonym("log.roll.ms"), Synonym("log.roll.hours", _hours_to_ms)),
        "The span of record timestamps after which a new segment starts.",
        1,
    ),
    _boolean(
        "unclean.leader.election.enable",
        False,
        "unclean.leader.election.enable",
        "Whether a replica that is not in sync may lead if no other can; committed records may be"
        " lost.",
    ),
)

TOPIC_CONFIGS: Final[dict[str, TopicConfig]] = {config.name: config for config in _ALL}
