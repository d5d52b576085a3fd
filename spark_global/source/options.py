"""The options of `format("heliograph")`: text to one frozen object.

Spark lower-cases option names, so no name here has capitals.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from local_cluster.client.model import TopicPartition
from spark_global.addresses import ClusterAddress, decode_security
from spark_global.cut.offsets import CutKey, CutOffsets, decode_offsets
from spark_global.links import MirrorLink, decode_links
from spark_global.source.pruning import Bounds, Interval
from spark_global.source.tables import RECORDS, RECORDS_TABLE, TABLES

SPLIT_RECORDS_MAX: Final = 500_000
"""Default of the maximum number of offsets that one Spark task reads."""
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""Default of the maximum bytes of one Fetch."""

SourceOffsets = Mapping[tuple[str, TopicPartition], int]
"""An offset by datacenter and source partition."""

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of one read."""

    bootstrap: str
    """Bootstrap addresses of the cluster to read."""
    security: ClientSecurity = PLAINTEXT
    """Its security settings; JSON as text, see `addresses.py`."""
    table: str = "records"
    """One of the tables of `tables.py`."""
    topics: tuple[str, ...] = ()
    """Topics by their names in the cluster to read; empty for all mirrored topics."""
    topic: str | None = None
    """Source topic whose mirrors are read."""
    links: tuple[MirrorLink, ...] = ()
    """Links into the cluster; without links every topic is its own origin."""
    links_file: str | None = None
    """Streams: a file on the driver with the text of `links`, which may change. Links of it replace
    those of the same name."""
    maps_bootstrap: str | None = None
    """Bootstrap addresses of the cluster with the offset maps; default: the cluster to read."""
    maps_security: ClientSecurity = PLAINTEXT
    """Security settings of `maps_bootstrap`."""
    datacenter: str | None = None
    """Datacenter of topics that are no mirrors."""
    datacenters: tuple[str, ...] = ()
    """Only records of these datacenters; empty for all."""
    partitions: tuple[int, ...] = ()
    """Only these partitions; empty for all."""
    source_topics: tuple[str, ...] = ()
    """Only records of these topics at their sources; empty for all. Others need not exist."""
    aggregate_topics: tuple[str, ...] = ()
    """The same by their names in the cluster to read."""
    offset_first: int | None = None
    """Only source offsets from this one on."""
    offset_end: int | None = None
    """Only source offsets below this one."""
    aggregate_offset_first: int | None = None
    """Only aggregate offsets from this one on."""
    aggregate_offset_end: int | None = None
    """Only aggregate offsets below this one."""
    timestamp_first: int | None = None
    """Skip the start of each partition in which every record is older. Milliseconds here, ISO 8601
    as text."""
    as_of: int | None = None
    """Answer as of this time: read each partition to where its source ended then. Units as
    `timestamp_first`."""
    since: int | None = None
    """With `as_of`: begin where each source ended at this time."""
    allow_missing: bool = False
    """With `as_of`: leave out partitions whose cut is not known, or not held any more."""
    cut: Mapping[CutKey, CutOffsets] | None = None
    """The offsets of a cut that is resolved already; JSON as text, see `cut/offsets.py`."""
    starting_offsets: str | Mapping[TopicPartition, int] = EARLIEST
    """Streams: where the first run begins, `earliest`, `latest`, or aggregate offsets."""
    starting_timestamp: int | None = None
    """Streams: begin at the first record that is not older. Units as `timestamp_first`."""
    starting_source_offsets: SourceOffsets | None = None
    """Streams: begin at the copies of these source offsets, by datacenter and source partition."""
    starting_groups: Mapping[str, str] | None = None
    """Streams: begin where these groups have committed at the sources, one by datacenter."""
    max_records_per_trigger: int | None = None
    """Streams: most offsets of one batch."""
    max_bytes_per_trigger: int | None = None
    """Streams: most bytes of one batch, compressed; approximate."""
    group: str | None = None
    """Streams: the consumer group under which lag tools see the query."""
    discover_links: bool = True
    """Streams: find links by their offset maps, besides those of `links`."""
    wait_for_map: bool = True
    """Streams: read a record only when its origin is known."""
    carry_completeness: bool = False
    """Streams: the checkpoint says of each batch until when it is complete, per datacenter. New
    statements make a batch, also without records."""
    completeness_rows: bool = False
    """Streams of one topic, with `carry_completeness`: each batch also has these statements as
    rows, see `source/stated.py`."""
    columns: tuple[str, ...] = ()
    """Only these columns of `records`; empty for all. What no column needs is not decoded."""
    split_records_max: int = SPLIT_RECORDS_MAX
    fetch_bytes_max: int = FETCH_BYTES_MAX

    @property
    def record_columns(self) -> tuple[str, ...]:
        """The columns of `records` to build, in their order."""
        names = tuple(RECORDS.names)
        return tuple(name for name in names if name in self.columns) if self.columns else names

    @property
    def cluster(self) -> ClusterAddress:
        """The cluster to read."""
        return ClusterAddress(self.bootstrap, self.security)

    @property
    def maps(self) -> ClusterAddress:
        """The cluster with the offset maps."""
        if self.maps_bootstrap is None:
            return self.cluster
        return ClusterAddress(self.maps_bootstrap, self.maps_security)

    @property
    def bounds(self) -> Bounds:
        return Bounds(
            datacenters=frozenset(self.datacenters),
            partitions=frozenset(self.partitions),
            source_topics=frozenset(self.source_topics),
            aggregate_topics=frozenset(self.aggregate_topics),
            offsets=Interval(self.offset_first, self.offset_end),
            aggregate_offsets=Interval(self.aggregate_offset_first, self.aggregate_offset_end),
            timestamp_ms_first=self.timestamp_first,
        )


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(f"{value} is not positive")
    return value


def _table(text: str) -> str:
    if text not in TABLES:
        raise ValueError(f"{text!r} is none of {', '.join(TABLES)}")
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def timestamp_ms(text: str) -> int:
    """Return the milliseconds of a time in ISO 8601, UTC if it names no zone. Raises ValueError."""
    value = datetime.fromisoformat(text)
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MILLISECOND


def _starting_offsets(text: str) -> str | dict[TopicPartition, int]:
    """Read `earliest`, `latest`, or the JSON of Spark's Kafka connector: {"topic": {"0": 5}}."""
    if text.strip() in (EARLIEST, LATEST):
        return text.strip()
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, offsets in json.loads(text).items()
            for partition, offset in offsets.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f'{text!r} is neither {EARLIEST}, {LATEST} nor JSON such as {{"orders": {{"0": 5}}}}'
        ) from error


def _starting_source_offsets(text: str) -> dict[tuple[str, TopicPartition], int]:
    try:
        found = {
            (datacenter, TopicPartition(topic, int(partition))): int(offset)
            for datacenter, topics in json.loads(text).items()
            for topic, offsets in topics.items()
            for partition, offset in offsets.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f'{text!r} is not JSON such as {{"JFK": {{"orders": {{"0": 5}}}}}}'
        ) from error
    for (datacenter, at), offset in found.items():
        if offset < 0:
            raise ValueError(f"{datacenter} {at}: {offset} is no offset of a source")
    return found


def _starting_groups(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise ValueError(f'{text!r} is not JSON such as {{"JFK": "readers"}}')
    return found


def _columns(text: str) -> tuple[str, ...]:
    found = _names(text)
    for name in found:
        if name not in RECORDS.names:
            near = difflib.get_close_matches(name, RECORDS.names, n=1)
            raise ValueError(
                f"{RECORDS_TABLE} has no column {name}"
                + (f"; did you mean {near[0]}?" if near else "")
            )
    return found


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "table": _table,
    "topics": _names,
    "columns": _columns,
    "links": decode_links,
    "security": decode_security,
    "maps_security": decode_security,
    "datacenters": _names,
    "source_topics": _names,
    "aggregate_topics": _names,
    "partitions": lambda text: tuple(int(part) for part in _names(text)),
    "offset_first": int,
    "offset_end": int,
    "aggregate_offset_first": int,
    "aggregate_offset_end": int,
    "timestamp_first": timestamp_ms,
    "split_records_max": _positive,
    "fetch_bytes_max": _positive,
    "as_of": timestamp_ms,
    "since": timestamp_ms,
    "allow_missing": _boolean,
    "cut": decode_offsets,
    "starting_offsets": _starting_offsets,
    "starting_timestamp": timestamp_ms,
    "starting_source_offsets": _starting_source_offsets,
    "starting_groups": _starting_groups,
    "max_records_per_trigger": _positive,
    "max_bytes_per_trigger": _positive,
    "discover_links": _boolean,
    "wait_for_map": _boolean,
    "carry_completeness": _boolean,
    "completeness_rows": _boolean,
}
_NAMES: Final = {field.name.replace("_", ""): field.name for field in fields(ReadOptions)}
"""By the name without underscores, so that `maxRecordsPerTrigger` works as well."""
_AT_SOURCES: Final = frozenset({"starting_source_offsets", "starting_groups"})
_STARTING: Final = ("starting_offsets", "starting_timestamp", *sorted(_AT_SOURCES))
_ONLY_BATCH: Final = (
    "offset_first",
    "offset_end",
    "aggregate_offset_first",
    "aggregate_offset_end",
    "timestamp_first",
    "as_of",
    "since",
    "cut",
)
"""Bounds that a stream has no use for: its checkpoint says what it reads."""


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options of one read. Raises ValueError that names the option."""
    values: dict[str, Any] = {}
    for given, text in options.items():
        if given.lower() == "path":
            raise ValueError("format heliograph loads no path; name the table by option table")
        plain = given.lower().replace("_", "")
        if plain not in _NAMES:
            near = difflib.get_close_matches(plain, _NAMES, n=1)
            raise ValueError(
                f"unknown option {given.lower()}"
                + (f"; did you mean {_NAMES[near[0]]}?" if near else "")
            )
        name = _NAMES[plain]
        try:
            values[name] = _PARSERS.get(name, str)(text)
        except ValueError as error:
            raise ValueError(f"option {name}: {error}") from error
    if not values.get("bootstrap"):
        raise ValueError("option bootstrap is missing: host:port of the cluster to read")
    starting = [name for name in _STARTING if name in values]
    if len(starting) > 1 and _AT_SOURCES & set(starting):
        raise ValueError(f"options {' and '.join(starting)}: a stream begins by one of them")
    read = ReadOptions(**values)
    if read.columns and read.table != RECORDS_TABLE:
        raise ValueError(f"option columns: it is for table {RECORDS_TABLE!r} only")
    _check_cut(read)
    return read


def _check_cut(options: ReadOptions) -> None:
    """Raise ValueError if options of a cut do not fit."""
    has_cut = options.as_of is not None or options.cut is not None
    if has_cut and options.table != RECORDS_TABLE:
        raise ValueError(f"option as_of: only table {RECORDS_TABLE!r} has a past")
    if options.as_of is None and (options.since is not None or options.allow_missing):
        raise ValueError("options since and allow_missing need as_of")
    if options.as_of is not None and options.since is not None and options.since >= options.as_of:
        raise ValueError("option since: it must be before as_of")


def check_streamable(options: ReadOptions) -> None:
    """Refuse options that a stream cannot have. Raises ValueError that names the option."""
    if options.table != RECORDS_TABLE:
        raise ValueError(
            f"option table: {options.table!r} is not a stream; only {RECORDS_TABLE!r} is"
        )
    for name in _ONLY_BATCH:
        if getattr(options, name) is not None:
            raise ValueError(
                f"option {name} is for batch reads; a stream begins at starting_offsets or "
                "starting_timestamp"
            )
    if options.completeness_rows and not (options.carry_completeness and options.topic):
        raise ValueError("option completeness_rows needs carry_completeness and one topic")
