"""Every topic config that this broker knows.

Names, types, defaults, bounds and synonyms are those of Kafka 4.4. There is one config more,
heliograph.record.check.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from local_cluster.kafka_configs.definition import ConfigDefinition, ConfigType, Synonym
from local_cluster.kafka_configs.table import kafka_configs

MESSAGE_BYTES_MAX: Final = 1_048_588
"""Kafka's default of message.max.bytes: one MiB and the overhead of a batch in the log."""
INTERNAL_SEGMENT_BYTES: Final = "internal.segment.bytes"
INTERNAL_SEGMENT_BYTES_MIN: Final = 14
"""Kafka takes any number for its internal config; a segment needs room for a batch's length."""

_NO_TIERS: Final = "there is no tiered storage"
_PRODUCERS_CODEC: Final = "batches keep the compression of their producer"
_FLUSH_MODE: Final = "the flush mode of the broker decides"
WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "compression.type",
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.zstd.level",
        ),
        _PRODUCERS_CODEC,
    ),
    "errors.deadletterqueue.group.enable": "there are no share groups",
    "file.delete.delay.ms": "segment files are deleted at once; a reader keeps its file open",
    "flush.messages": _FLUSH_MODE,
    "flush.ms": _FLUSH_MODE,
    "local.retention.bytes": _NO_TIERS,
    "local.retention.ms": _NO_TIERS,
    "max.decompressed.message.bytes": "decompression has a limit of its own",
    "preallocate": "files are never preallocated",
    "remote.copy.lag.bytes": _NO_TIERS,
    "remote.copy.lag.ms": _NO_TIERS,
    "remote.log.copy.disable": _NO_TIERS,
    "remote.log.delete.on.disable": _NO_TIERS,
    "remote.storage.enable": _NO_TIERS,
}
"""Topic configs that are kept and shown without any effect, with the reason."""

_RECORD_CHECK: Final = ConfigDefinition(
    name="heliograph.record.check",
    type=ConfigType.STRING,
    default="header",
    synonyms=(Synonym("heliograph.log.record.check"),),
    doc="What is checked in produced batches. header: the header and the CRC. full: every record"
    " too, as in Kafka, which costs a decode in Python.",
    choices=("header", "full"),
)

_INTERNAL_SEGMENT: Final = ConfigDefinition(
    name=INTERNAL_SEGMENT_BYTES,
    type=ConfigType.INT,
    default=None,
    doc="The maximum size of a single log file, in place of segment.bytes and below its minimum."
    " For tests only.",
    minimum=INTERNAL_SEGMENT_BYTES_MIN,
    is_internal=True,
)


def marked_doc(doc: str, why: str | None) -> str:
    """Return the documentation of a config; it starts with the reason if it has no effect."""
    return doc if why is None else f"Has no effect: {why}. {doc}"


def _all() -> dict[str, ConfigDefinition]:
    configs = {
        name: replace(config, doc=marked_doc(config.doc, WITHOUT_EFFECT.get(name)))
        for name, config in kafka_configs("topic").items()
    }
    for own in (_RECORD_CHECK, _INTERNAL_SEGMENT):
        configs[own.name] = own
    return configs


TOPIC_CONFIGS: Final[Mapping[str, ConfigDefinition]] = MappingProxyType(_all())


def topic_default(name: str) -> str:
    """Return the default of a topic config; only internal ones are without one."""
    default = TOPIC_CONFIGS[name].default
    assert default is not None, name
    return default
