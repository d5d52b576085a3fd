"""A record as a document, as a line for people, and by a template. Pure."""

from __future__ import annotations

import string
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from topology.records.payloads import Encoding, encode

FIELDS: Final = (
    *("topic", "partition", "offset", "time", "timestamp_ms", "key", "value", "headers"),
    *("datacenter", "source_topic", "source_partition", "source_offset"),
)
LINE: Final = "{partition}\t{offset}\t{time}\t{key}\t{value}"
GLOBAL_LINE: Final = "{datacenter}\t" + LINE
NULL: Final = "null"


class Origin(NamedTuple):
    """Where a record of an aggregate comes from. What is unknown is None."""

    datacenter: str | None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


class ReadRecord(NamedTuple):
    """A record as a consumer got it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def record_document(
    record: ReadRecord, encoding: Encoding, origin: Origin | None = None
) -> dict[str, Any]:
    """Return a record as plain values; with an origin if the view is global."""
    known_time = record.timestamp_ms >= 0
    document: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms if known_time else None,
        "time": _moment(record.timestamp_ms) if known_time else None,
        "key": encode(record.key, encoding),
        "value": encode(record.value, encoding),
        # A name may occur twice, so headers are no mapping.
        "headers": [[name, encode(value, encoding)] for name, value in record.headers],
    }
    if origin is not None:
        document["datacenter"] = origin.datacenter
        document["source_topic"] = origin.topic
        document["source_partition"] = origin.partition
        document["source_offset"] = origin.offset
    return document


def check_template(template: str) -> str:
    """Return a template with `\\n` and `\\t` replaced. Raises ValueError for an unknown field."""
    text = template.replace("\\n", "\n").replace("\\t", "\t")
    try:
        names = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
    except ValueError as error:
        raise ValueError(f"--format {template!r}: {error}") from error
    unknown = sorted(names - set(FIELDS))
    if unknown:
        raise ValueError(
            f"--format {template!r}: no field {unknown[0]!r}; there are: {', '.join(FIELDS)}"
        )
    return text


def by_template(template: str, document: Mapping[str, Any]) -> str:
    """Return a document as text. Null shows as `null`, and headers as `name=value,name=value`."""
    values = {name: document.get(name) for name in FIELDS}
    pairs = [f"{name}={NULL if value is None else value}" for name, value in document["headers"]]
    shown = {name: NULL if value is None else value for name, value in values.items()}
    return template.format(**{**shown, "headers": ",".join(pairs)})


def _moment(timestamp_ms: int) -> str:
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
