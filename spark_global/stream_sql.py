"""SQL over streams: each view that a stream can fill, under its name after `stream_`.

`SELECT key FROM stream_global_flights` is a streaming DataFrame. Only the columns that the query
needs are built, if the views are created for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_global.narrowing.loading import COLUMNS, with_all_columns
from spark_global.narrowing.plans import Rehearsal
from spark_global.source.tables import RECORDS_TABLE
from spark_global.streamable import LATE_SECONDS, FoundView, StreamableViews, UnknownViewError
from spark_global.values.declaring import Decoding, PinnedTopic
from spark_global.view_names import question_names
from spark_global.views import Aggregate, decoded_view, load_table, stream_records
from spark_global.windowing.closing import Closing
from spark_global.windowing.streamed import (
    stream_options,
    streamed_top_keys,
    streamed_windows,
    top_keys_schema,
    windows_schema,
)

STREAM_PREFIX: Final = "stream_"
_MS_PER_SECOND: Final = 1_000
_WATERMARK: Final = re.compile(r"\bwatermark\b", re.IGNORECASE)


def create_stream_views(
    session: SparkSession,
    aggregate: Aggregate,
    query: str = "",
    decoding: Decoding | None = None,
    *,
    late_seconds: int = LATE_SECONDS,
    **options: str | int,
) -> list[str]:
    """Create the stream views that a query mentions, or all views; return their names.

    `late_seconds` is the watermark of questions, and how much longer windows wait for datacenters.
    Records have no watermark: a query gives its own by `WATERMARK timestamp DELAY OF ...`.
    `options` are those of `stream_records`. Raises KafkaError, UnknownViewError and
    SchemaFileError.
    """
    views = StreamableViews.of(aggregate, decoding)
    wanted = _mentioned(views, query)
    if not wanted and not query:
        wanted = [name for name, found in views.found.items() if found.is_direct]
    streams = _Streams(session, aggregate, decoding, options)

    def whole(name: str, found: FoundView) -> DataFrame:
        return streams.rows(found, late_seconds)

    _create(views, wanted, streams.pinned(views, wanted), late_seconds, whole)
    return [STREAM_PREFIX + name for name in wanted]


def stream_query(
    session: SparkSession,
    aggregate: Aggregate,
    query: str,
    decoding: Decoding | None = None,
    *,
    late_seconds: int = LATE_SECONDS,
    **options: str | int,
) -> DataFrame:
    """Return what a query over stream views gives, as a stream; it reads only needed columns.

    The views are those of this query: another query creates them again. Arguments and errors as in
    `create_stream_views`; UnknownViewError too if the query mentions no stream view.
    """
    views = StreamableViews.of(aggregate, decoding)
    wanted = _mentioned(views, query)
    if not wanted:
        known = ", ".join(STREAM_PREFIX + name for name in sorted(views.topics)) or "none"
        raise UnknownViewError(f"the query mentions no stream of {aggregate.name}; try: {known}")
    streams = _Streams(session, aggregate, decoding, options)
    pinned = streams.pinned(views, wanted)
    rehearsal = Rehearsal(session)

    def rehearsed(name: str, found: FoundView) -> DataFrame:
        if found.is_streamed:
            return rehearsal.empty(streamed_schema(found))
        return rehearsal.records(name)

    _create(views, wanted, pinned, None, rehearsed)
    needs = rehearsal.needs_of_query(query)
    # A plan of empty frames has no watermarks, so it does not say that they need the column.
    also = {"timestamp"} if _WATERMARK.search(query) else set()

    def narrowed(name: str, found: FoundView) -> DataFrame:
        columns = set(needs[name].columns) if name in needs else set()
        return streams.rows(found, late_seconds, columns | also if columns else ())

    _create(views, wanted, pinned, late_seconds, narrowed)
    return session.sql(query)


def streamed_view(
    session: SparkSession,
    aggregate: Aggregate,
    found: FoundView,
    late_seconds: int,
    **options: str | int,
) -> DataFrame:
    """Return the rows of windows that wait for datacenters, or their top keys, as a stream.

    `late_seconds` after the end of its window a record may still be committed.
    """
    lateness_ms = late_seconds * _MS_PER_SECOND
    needed = stream_options(with_keys=found.windows is None)
    given: dict[str, str | int] = {**options, **needed, "topic": found.topic}
    records = stream_records(session, aggregate, **given)
    if found.windows is not None:
        return streamed_windows(records, Closing(found.windows, lateness_ms))
    return streamed_top_keys(records, lateness_ms)


def streamed_schema(found: FoundView) -> StructType:
    """Return the columns of `streamed_view`."""
    return top_keys_schema() if found.windows is None else windows_schema(found.windows)


def topics_of_query(
    aggregate: Aggregate, query: str, decoding: Decoding | None = None
) -> list[str]:
    """Return the topics of the streams that a query reads, sorted.

    Raises KafkaError, SchemaFileError and UnknownViewError.
    """
    views = StreamableViews.of(aggregate, decoding)
    return sorted({views.found[name].topic for name in _mentioned(views, query)})


def topic_of_query(aggregate: Aggregate, query: str, decoding: Decoding | None = None) -> str:
    """Return the topic of a query that reads one stream.

    Raises KafkaError, SchemaFileError, and UnknownViewError for a query of none or of several.
    """
    views = StreamableViews.of(aggregate, decoding)
    wanted = _mentioned(views, query)
    if len(wanted) == 1:
        return views.found[wanted[0]].topic
    named = " and ".join(STREAM_PREFIX + name for name in wanted) or "no stream"
    raise UnknownViewError(
        f"a table with one commit per batch is of one stream, and the query reads {named}; keep "
        "several as Parquet"
    )


@dataclass(frozen=True, slots=True)
class _Streams:
    """Loads of the aggregate, as streams."""

    session: SparkSession
    aggregate: Aggregate
    decoding: Decoding | None
    options: Mapping[str, str | int]

    def rows(self, found: FoundView, late_seconds: int, columns: Collection[str] = ()) -> DataFrame:
        """Return the records of a view with these columns (default: all), or its windows."""
        if found.is_streamed:
            return streamed_view(self.session, self.aggregate, found, late_seconds, **self.options)
        narrowing = {COLUMNS: ",".join(sorted(columns))} if columns else {}
        options = {**narrowing, **self.options, "topic": found.topic}
        return with_all_columns(stream_records(self.session, self.aggregate, **options))

    def pinned(self, views: StreamableViews, wanted: Iterable[str]) -> dict[str, PinnedTopic]:
        """Return the schemas of the views of decoded records. Raises SchemaFileError."""
        found = {name: views.found[name] for name in wanted}
        return {name: self._pin(each.topic) for name, each in found.items() if each.is_decoded}

    def _pin(self, topic: str) -> PinnedTopic:
        from spark_global.values.frames import samples_of
        from spark_global.values.pinning import pin_topic

        assert self.decoding is not None, topic
        samples = load_table(self.session, self.aggregate, RECORDS_TABLE, topic=topic)
        return pin_topic(self.decoding, topic, samples_of(samples))


def _create(
    views: StreamableViews,
    wanted: Iterable[str],
    pinned: Mapping[str, PinnedTopic],
    late_seconds: int | None,
    records_of: Callable[[str, FoundView], DataFrame],
) -> None:
    """Create views of records; questions get a watermark of `late_seconds`."""
    for name in wanted:
        found = views.found[name]
        frame = records_of(name, found)
        if name in pinned:
            frame = decoded_view(name, frame, pinned[name])
        elif found.question is not None:
            if late_seconds is not None:
                frame = frame.withWatermark("timestamp", f"{late_seconds} seconds")
            frame = found.question(frame)
        frame.createOrReplaceTempView(STREAM_PREFIX + name)


def _mentioned(views: StreamableViews, query: str) -> list[str]:
    """Return the views that a query mentions after the prefix. Raises UnknownViewError."""
    wanted = []
    others = question_names(views.topics)
    for word in dict.fromkeys(re.findall(r"\w+", query.lower())):
        name = word.removeprefix(STREAM_PREFIX)
        if name == word:
            continue
        if name not in views.found:
            if name in others:
                views.find(name)  # raises, and says why
            continue
        if not views.found[name].is_direct:
            raise UnknownViewError(
                f"{word} has rows per batch, so it is no view: keep it by "
                f"`heliograph spark materialize {name} PATH`"
            )
        wanted.append(name)
    return wanted
