"""Global views: one temporary view per topic over all datacenters that mirror it.

`global_flights` has the records of `ewr.flights`, `jfk.flights` and `lga.flights`. Each has its
datacenter, its topic, partition and offset there, and its topic and offset on the aggregate. The
columns are those of the table `records`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from spark_global.addresses import ClusterAddress, encode_security
from spark_global.catalogue.question import Question
from spark_global.connector.records import connector_records
from spark_global.cut.offsets import encode_offsets
from spark_global.cut.past import Past
from spark_global.links import MirrorLink, encode_links
from spark_global.narrowing.loading import Narrowed, narrowing_options, with_all_columns
from spark_global.narrowing.plans import Need, Rehearsal
from spark_global.source.coverage import choose_topics
from spark_global.source.data_source import FORMAT
from spark_global.source.maps import load_maps
from spark_global.source.options import ReadOptions
from spark_global.source.planning import is_bookkeeping
from spark_global.source.tables import (
    COMPLETENESS_TABLE,
    RECORDS_TABLE,
)
from spark_global.streaming.listener import ProgressListener
from spark_global.values.declaring import Decoding, PinnedTopic
from spark_global.view_names import BOOKKEEPING_VIEWS, DECODED_PREFIX, Mentioned, mention


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """An aggregate cluster, as readers need it."""

    name: str
    bootstrap: str
    links: tuple[MirrorLink, ...]
    security: ClientSecurity = PLAINTEXT
    """Security settings. File paths must be absolute, because Spark's processes read them too."""
    links_file: str | None = None
    """File on the driver that streams read again for links that are added; see
    `followed_links.py`."""
    maps_bootstrap: str | None = None
    """Bootstrap addresses of the cluster with the offset maps; default: the aggregate."""
    maps_security: ClientSecurity = PLAINTEXT
    """Security settings of connections to `maps_bootstrap`."""


def read_past(
    aggregate: Aggregate, as_of_ms: int, since_ms: int | None = None, *, allow_missing: bool = False
) -> Past:
    """Return the cuts of an aggregate as of a time; options as in `ReadOptions`."""
    options = read_options(aggregate)
    return Past(replace(options, as_of=as_of_ms, since=since_ms, allow_missing=allow_missing))


def read_options(aggregate: Aggregate) -> ReadOptions:
    """Return the options of a read of an aggregate."""
    return ReadOptions(
        bootstrap=aggregate.bootstrap,
        security=aggregate.security,
        links=aggregate.links,
        links_file=aggregate.links_file,
        maps_bootstrap=aggregate.maps_bootstrap,
        maps_security=aggregate.maps_security,
    )


def load_table(
    session: SparkSession, aggregate: Aggregate, table: str, **options: str | int
) -> DataFrame:
    """Return a table of the data source; `options` are those of `ReadOptions`."""
    reader = session.read.format(FORMAT).options(**_aggregate_options(aggregate))
    return reader.option("table", table).options(**options).load()


def load_for(
    question: Callable[[DataFrame], DataFrame],
    session: SparkSession,
    aggregate: Aggregate,
    **options: str | int,
) -> DataFrame:
    """Return `question(records)`, and read only what the question needs of the records.

    The question is called twice, first with an empty frame, whose plan tells. So it must build the
    same query each time, without actions. Filters on datacenter, topics, partition, offsets and
    timestamp become bounds. `options` are those of `ReadOptions`; they have precedence.
    """
    rehearsal = Rehearsal(session)
    needs = rehearsal.needs_of_frame(question(rehearsal.records(RECORDS_TABLE)))
    given = {name.lower().replace("_", "") for name in options}
    found = {
        name: value
        for name, value in narrowing_options(needs.get(RECORDS_TABLE, Need())).items()
        # Other bounds would bound a cut too, and so which partitions it refuses.
        if name.replace("_", "") not in given and "asof" not in given
    }
    records = load_table(session, aggregate, RECORDS_TABLE, **found | options)
    return question(records if "columns" in given else with_all_columns(records))


def stream_records(session: SparkSession, aggregate: Aggregate, **options: str | int) -> DataFrame:
    """Return the records of an aggregate as a stream; `options` are those of `ReadOptions`.

    Links that appear later join by themselves.
    """
    reader = session.readStream.format(FORMAT).options(**_aggregate_options(aggregate))
    return reader.options(**options).load()


def follow_streams(session: SparkSession, aggregate: Aggregate) -> ProgressListener:
    """Follow the session's streams of an aggregate: their lag per datacenter, and their groups."""
    listener = ProgressListener(ClusterAddress(aggregate.bootstrap, aggregate.security))
    session.streams.addListener(listener)
    return listener


def _aggregate_options(aggregate: Aggregate) -> dict[str, str]:
    options = {"bootstrap": aggregate.bootstrap, "links": encode_links(aggregate.links)}
    if aggregate.security != PLAINTEXT:
        options["security"] = encode_security(aggregate.security)
    if aggregate.links_file is not None:
        options["links_file"] = aggregate.links_file
    if aggregate.maps_bootstrap is not None:
        options["maps_bootstrap"] = aggregate.maps_bootstrap
        options["maps_security"] = encode_security(aggregate.maps_security)
    return options


def global_topics(aggregate: Aggregate) -> list[str]:
    """Return the source topics with mirrors on the aggregate, no internal ones.

    Raises KafkaError.
    """

    async def ask() -> list[str]:
        async with ClusterAddress(aggregate.bootstrap, aggregate.security).client() as client:
            topics = (await client.metadata()).topics
            maps = await load_maps(client) if aggregate.maps_bootstrap is None else {}
        options = ReadOptions(bootstrap=aggregate.bootstrap, links=aggregate.links)
        present = [name for name in topics if not is_bookkeeping(name)]
        chosen = choose_topics(options, present, chain.from_iterable(maps.values()))
        return sorted({topic.origin.topic for topics in chosen.values() for topic in topics})

    return asyncio.run(ask())


def create_views(
    session: SparkSession,
    aggregate: Aggregate,
    query: str = "",
    past: Past | None = None,
    decoding: Decoding | None = None,
    *,
    by_connector: bool = False,
) -> list[str]:
    """Create the views that a query mentions, or all views; return their names.

    Each view costs a start of Python on the driver, so only the needed ones are created. With a
    `past` the views of topics have its cut, and there are no others. With a `decoding` there are
    also `decoded_<topic>` and `rejects_<topic>`. `by_connector` reads records with Spark's Kafka
    connector. Raises KafkaError, CutRefusedError, SchemaFileError and ConnectorRefusedError.
    """
    mentioned = mention(global_topics(aggregate), query, decoding, has_past=past is not None)
    loads = _Loads(session, aggregate, past, by_connector, {})
    _create(mentioned, loads, None)
    return mentioned.wanted


def create_views_for(
    session: SparkSession,
    aggregate: Aggregate,
    query: str,
    past: Past | None = None,
    decoding: Decoding | None = None,
    *,
    by_connector: bool = False,
) -> Narrowed:
    """Create the views of one query; return the options by which each load of records is narrowed.

    Columns that the query does not need are constants. Records that its filters exclude may be
    missing. Nothing is narrowed with `by_connector`. Raises as `create_views`.
    """
    mentioned = mention(global_topics(aggregate), query, decoding, has_past=past is not None)
    loads = _Loads(session, aggregate, past, by_connector, {})
    _create(mentioned, loads, query)
    return {load: narrowing_options(need) for load, need in loads.needs.items()}


def _create(mentioned: Mentioned, loads: _Loads, query_alone: str | None) -> None:
    """Create the views, narrowed to the needs of one query if it is given."""
    pinned = {
        name: _pin(loads, name, topic, mentioned.decoding)
        for name, topic in mentioned.decoded.items()
        if name in mentioned.wanted and mentioned.decoding is not None
    }
    if query_alone is not None and mentioned.is_by_name and not loads.by_connector:
        rehearsal = Rehearsal(loads.session)
        for name in mentioned.wanted:
            empty = _view(name, mentioned, pinned, _EmptyLoads(rehearsal))
            empty.createOrReplaceTempView(name)
        loads.needs = rehearsal.needs_of_query(query_alone)
    for name in mentioned.wanted:
        _view(name, mentioned, pinned, loads).createOrReplaceTempView(name)


def _pin(loads: _Loads, name: str, topic: str, decoding: Decoding) -> PinnedTopic:
    from spark_global.values.frames import samples_of
    from spark_global.values.pinning import pin_topic

    def sample(part: str) -> Iterable[bytes]:
        return samples_of(loads.records(name, topic))(part)

    return pin_topic(decoding, topic, sample)


def decode_view(
    name: str, topic: str, decoding: Decoding, records: DataFrame, samples: DataFrame
) -> DataFrame:
    """Return a view of `decoded_names` over records; `samples` is a batch of the same topic.

    Raises SchemaFileError.
    """
    from spark_global.values.frames import samples_of
    from spark_global.values.pinning import pin_topic

    return decoded_view(name, records, pin_topic(decoding, topic, samples_of(samples)))


def decoded_view(name: str, records: DataFrame, pinned: PinnedTopic) -> DataFrame:
    """Return a view of `decoded_names` over records of a topic whose schemas are known."""
    from spark_global.values.frames import decoded_records, rejected_records

    decode = decoded_records if name.startswith(DECODED_PREFIX) else rejected_records
    return decode(records, pinned)


class _Source(Protocol):
    """Where views have their frames from; `load` names one of them."""

    def records(self, load: str, topic: str) -> DataFrame:
        """Return the records of a source topic."""

    def table(self, table: str, topic: str | None, *, is_read_now: bool = False) -> DataFrame:
        """Return another table, of one source topic or of all."""


@dataclass(slots=True)
class _Loads:
    """Loads of the aggregate."""

    session: SparkSession
    aggregate: Aggregate
    past: Past | None
    by_connector: bool
    needs: Mapping[str, Need]

    def records(self, load: str, topic: str) -> DataFrame:
        cut = None if self.past is None else self.past.cut(topic).offsets()
        if self.by_connector:
            options = replace(read_options(self.aggregate), topic=topic, cut=cut)
            return connector_records(self.session, options)
        narrowing = narrowing_options(self.needs.get(load, Need()))
        if cut is not None:
            narrowing["cut"] = encode_offsets(cut)
        frame = load_table(self.session, self.aggregate, RECORDS_TABLE, topic=topic, **narrowing)
        return with_all_columns(frame)

    def table(self, table: str, topic: str | None, *, is_read_now: bool = False) -> DataFrame:
        of_topic = {} if topic is None else {"topic": topic}
        frame = load_table(self.session, self.aggregate, table, **of_topic)
        return self.session.createDataFrame(frame.collect(), frame.schema) if is_read_now else frame


@dataclass(frozen=True, slots=True)
class _EmptyLoads:
    """Empty frames, with which a query is rehearsed."""

    rehearsal: Rehearsal

    def records(self, load: str, topic: str) -> DataFrame:
        return self.rehearsal.records(load)

    def table(self, table: str, topic: str | None, *, is_read_now: bool = False) -> DataFrame:
        return self.rehearsal.table(table)


def _view(
    name: str, mentioned: Mentioned, pinned: Mapping[str, PinnedTopic], source: _Source
) -> DataFrame:
    """Return a view; `pinned` has the schemas of views of decoded records and of rejects."""
    if name in pinned:
        return decoded_view(name, source.records(name, mentioned.decoded[name]), pinned[name])
    if name in mentioned.questions:
        return _answer(name, *mentioned.questions[name], source)
    if name in mentioned.topics:
        return source.records(name, mentioned.topics[name])
    return source.table(BOOKKEEPING_VIEWS[name], None)


def _answer(name: str, question: Question, topic: str | None, source: _Source) -> DataFrame:
    frames = []
    for table in question.inputs:
        if table == RECORDS_TABLE and topic is not None:
            frames.append(source.records(name, topic))
            continue
        # It must not prove records that come after the others are read, so it is read first.
        is_read_now = table == COMPLETENESS_TABLE and RECORDS_TABLE in question.inputs
        frames.append(source.table(table, topic, is_read_now=is_read_now))
    return question(*frames)
