"""Global views: one temporary view per topic over all datacenters that mirror it.

`global_flights` has the records of `ewr.flights`, `jfk.flights` and `lga.flights`. Each has its
datacenter, its topic, partition and offset there, and its topic and offset on the aggregate. The
columns are those of the table `records`.
"""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from mirror_maker.formats.mm2 import HEARTBEATS_TOPIC
from spark_global.addresses import ClusterAddress, encode_security
from spark_global.asked_columns import asked_columns
from spark_global.catalogue.offsets import HEARTBEAT_MATRIX, OFFSET_QUESTIONS
from spark_global.catalogue.question import Question
from spark_global.catalogue.records import RECORD_QUESTIONS
from spark_global.catalogue.windows import WINDOW_QUESTIONS
from spark_global.connector.records import connector_records
from spark_global.cut.offsets import CutRefusedError, encode_offsets
from spark_global.cut.past import Past
from spark_global.links import MirrorLink, encode_links
from spark_global.source.coverage import choose_topics
from spark_global.source.data_source import FORMAT
from spark_global.source.maps import load_maps
from spark_global.source.options import ReadOptions
from spark_global.source.planning import is_bookkeeping
from spark_global.source.tables import (
    AUDIT_TABLE,
    COMPLETENESS_TABLE,
    END_OFFSETS_TABLE,
    GROUPS_TABLE,
    JOURNAL_TABLE,
    LAG_TABLE,
    OFFSET_MAP_TABLE,
    PROGRESS_TABLE,
    RECORDS_TABLE,
    SOURCE_END_OFFSETS_TABLE,
    TOPIC_CONFIGS_TABLE,
)
from spark_global.streaming.listener import ProgressListener
from spark_global.values.declaring import Decoding
from spark_global.values.not_decodable import SchemaFileError

VIEW_PREFIX: Final = "global_"
DECODED_PREFIX: Final = "decoded_"
REJECTS_PREFIX: Final = "rejects_"
BOOKKEEPING_VIEWS: Final[Mapping[str, str]] = {
    "heliograph_offset_map": OFFSET_MAP_TABLE,
    "heliograph_end_offsets": END_OFFSETS_TABLE,
    "heliograph_source_end_offsets": SOURCE_END_OFFSETS_TABLE,
    "heliograph_groups": GROUPS_TABLE,
    "heliograph_lag": LAG_TABLE,
    "heliograph_topic_configs": TOPIC_CONFIGS_TABLE,
    "heliograph_completeness": COMPLETENESS_TABLE,
    "heliograph_audit": AUDIT_TABLE,
    "heliograph_journal": JOURNAL_TABLE,
    "heliograph_progress": PROGRESS_TABLE,
}
"""The tables of the views that belong to no topic."""
_HAVE_A_PAST: Final = frozenset({RECORDS_TABLE, JOURNAL_TABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """An aggregate cluster, as readers need it."""

    name: str
    bootstrap: str
    links: tuple[MirrorLink, ...]
    security: ClientSecurity = PLAINTEXT
    """Security settings. File paths must be absolute, because Spark's processes read them too."""
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
        maps_bootstrap=aggregate.maps_bootstrap,
        maps_security=aggregate.maps_security,
    )


def load_table(
    session: SparkSession, aggregate: Aggregate, table: str, **options: str | int
) -> DataFrame:
    """Return a table of the data source; `options` are those of `ReadOptions`."""
    reader = session.read.format(FORMAT).options(**_aggregate_options(aggregate))
    return reader.option("table", table).options(**options).load()


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


def view_names(topics: Iterable[str]) -> dict[str, str]:
    """Return topic by view name. Topics with the same view name get a number at the end."""
    names: dict[str, str] = {}
    for topic in sorted(topics):
        plain = VIEW_PREFIX + re.sub(r"\W", "_", topic.lower())
        name, number = plain, 1
        while name in names:
            number += 1
            name = f"{plain}_{number}"
        names[name] = topic
    return names


def create_views(
    session: SparkSession,
    aggregate: Aggregate,
    query: str = "",
    past: Past | None = None,
    decoding: Decoding | None = None,
    *,
    by_connector: bool = False,
    is_for_query_alone: bool = False,
) -> list[str]:
    """Create the views that a query mentions, or all views; return their names.

    Each view costs a start of Python on the driver, so only the needed ones are created. With a
    `past` the views of topics have its cut, and there are no others. With a `decoding` there are
    also `decoded_<topic>` and `rejects_<topic>`. `by_connector` reads records with Spark's Kafka
    connector. `is_for_query_alone` leaves out columns that the query does not need, if all of its
    views are of topics. Raises KafkaError, CutRefusedError, SchemaFileError and
    ConnectorRefusedError.
    """
    topics = view_names(global_topics(aggregate))
    questions = question_names(topics)
    decoded = decoded_names(topics, decoding)
    words = set(re.findall(r"\w+", query.lower()))
    plain = [*topics, *decoded, *BOOKKEEPING_VIEWS]
    wanted = [name for name in (*plain, *questions) if name in words] or plain
    if past is not None:
        of_records = {*topics, *decoded}
        wanted = [name for name in wanted if name in words or name in of_records]
        _check_past(wanted, of_records, questions)
    columns: tuple[str, ...] = ()
    if is_for_query_alone and not by_connector and topics.keys() >= set(wanted):
        columns = asked_columns(session, query, wanted)
    for name in wanted:
        if name in questions:
            view = _answer(session, aggregate, *questions[name], past, by_connector)
        elif name in topics:
            view = _load_records(session, aggregate, topics[name], past, by_connector, columns)
        elif decoding is not None and name in decoded:
            records = _load_records(session, aggregate, decoded[name], past, by_connector)
            view = decode_view(name, decoded[name], decoding, records, records)
        else:
            view = load_table(session, aggregate, BOOKKEEPING_VIEWS[name])
        view.createOrReplaceTempView(name)
    return wanted


def question_names(topics: Mapping[str, str]) -> dict[str, tuple[Question, str | None]]:
    """Return question and topic by view name; `topics` has the topic by view name.

    `global_flights_conflicts` is the question `conflicts` of the topic `flights`. A topic's own
    view has precedence.
    """
    of_topics: dict[str, tuple[Question, str | None]] = {
        f"{view}_{question.name}": (question, topic)
        for view, topic in topics.items()
        for question in (*RECORD_QUESTIONS, *WINDOW_QUESTIONS)
    }
    of_offsets: dict[str, tuple[Question, str | None]] = {
        f"heliograph_{question.name}": (question, None) for question in OFFSET_QUESTIONS
    }
    of_offsets[f"heliograph_{HEARTBEAT_MATRIX.name}"] = HEARTBEAT_MATRIX, HEARTBEATS_TOPIC
    every = of_topics | of_offsets
    return {name: asked for name, asked in every.items() if name not in topics}


def decoded_names(topics: Mapping[str, str], decoding: Decoding | None) -> dict[str, str]:
    """Return topic by view name of what is decoded; `topics` has the topic by view name.

    Raises SchemaFileError if the decoding has a topic that the aggregate does not have.
    """
    wanted = {} if decoding is None else decoding.topics
    if unknown := sorted(wanted.keys() - set(topics.values())):
        near = difflib.get_close_matches(unknown[0], topics.values(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise SchemaFileError(f"the topic {unknown[0]} to decode has no mirror here{hint}")
    return {
        prefix + view.removeprefix(VIEW_PREFIX): topic
        for view, topic in topics.items()
        if topic in wanted
        for prefix in (DECODED_PREFIX, REJECTS_PREFIX)
    }


def decode_view(
    name: str, topic: str, decoding: Decoding, records: DataFrame, samples: DataFrame
) -> DataFrame:
    """Return a view of `decoded_names` over records; `samples` is a batch of the same topic.

    Raises SchemaFileError.
    """
    from spark_global.values.frames import decoded_records, rejected_records, samples_of
    from spark_global.values.pinning import pin_topic

    pinned = pin_topic(decoding, topic, samples_of(samples))
    decode = decoded_records if name.startswith(DECODED_PREFIX) else rejected_records
    return decode(records, pinned)


def _check_past(
    wanted: Iterable[str],
    of_topics: Iterable[str],
    questions: Mapping[str, tuple[Question, str | None]],
) -> None:
    """Raise CutRefusedError if a view is not of the records of a topic."""
    for name in wanted:
        # An entry of the journal is about offsets, so it holds in every cut.
        of_records = name in questions and set(questions[name][0].inputs) <= _HAVE_A_PAST
        if name not in of_topics and not of_records:
            raise CutRefusedError(
                f"{name} has no past: only the views {VIEW_PREFIX}<topic> answer as of a time"
            )


def _answer(
    session: SparkSession,
    aggregate: Aggregate,
    question: Question,
    topic: str | None,
    past: Past | None,
    by_connector: bool,
) -> DataFrame:
    if topic is not None and question.inputs == (RECORDS_TABLE,):
        return question(_load_records(session, aggregate, topic, past, by_connector))
    of_topic: dict[str, str | int] = {} if topic is None else {"topic": topic}
    frames = []
    for name in question.inputs:
        if name == RECORDS_TABLE and topic is not None:
            frames.append(_load_records(session, aggregate, topic, past, by_connector))
            continue
        frame = load_table(session, aggregate, name, **of_topic)
        if name == COMPLETENESS_TABLE and RECORDS_TABLE in question.inputs:
            # It must not prove records that come after the others are read, so it is read first.
            frame = session.createDataFrame(frame.collect(), frame.schema)
        frames.append(frame)
    return question(*frames)


def _load_records(
    session: SparkSession,
    aggregate: Aggregate,
    topic: str,
    past: Past | None,
    by_connector: bool,
    columns: Sequence[str] = (),
) -> DataFrame:
    cut = None if past is None else past.cut(topic).offsets()
    if by_connector:
        return connector_records(session, replace(read_options(aggregate), topic=topic, cut=cut))
    options = {} if cut is None else {"cut": encode_offsets(cut)}
    if columns:
        options["columns"] = ",".join(columns)
    return load_table(session, aggregate, RECORDS_TABLE, topic=topic, **options)
