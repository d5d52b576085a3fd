"""Global views: one temporary view per topic over all datacenters that mirror it.

`global_flights` holds the records of `ewr.flights`, `jfk.flights`, `lga.flights`, each with its
datacenter, its topic, partition and offset there, and where it lies on the aggregate. Columns are
those of the table `records`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from spark_global.addresses import ClusterAddress, encode_security
from spark_global.links import MirrorLink, encode_links
from spark_global.source.data_source import FORMAT
from spark_global.source.maps import load_maps
from spark_global.source.options import ReadOptions
from spark_global.source.planning import choose_topics
from spark_global.source.tables import END_OFFSETS_TABLE, OFFSET_MAP_TABLE, RECORDS_TABLE

VIEW_PREFIX: Final = "global_"
BOOKKEEPING_VIEWS: Final[Mapping[str, str]] = {
    "heliograph_offset_map": OFFSET_MAP_TABLE,
    "heliograph_end_offsets": END_OFFSETS_TABLE,
}
"""Views beside the topics' own, and the tables behind them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """An aggregate cluster as its readers see it."""

    name: str
    bootstrap: str
    links: tuple[MirrorLink, ...]
    security: ClientSecurity = PLAINTEXT
    """How to talk to it; paths of files are absolute, as Spark's processes read them too."""
    maps_bootstrap: str | None = None
    """Where the offset maps lie; default: the aggregate itself."""
    maps_security: ClientSecurity = PLAINTEXT
    """How to talk to the cluster at `maps_bootstrap`."""


def load_table(
    session: SparkSession, aggregate: Aggregate, table: str, **options: str | int
) -> DataFrame:
    """A table of the data source; `options` as in `options.py`."""
    reader = session.read.format(FORMAT).option("bootstrap", aggregate.bootstrap)
    reader = reader.option("table", table).option("links", encode_links(aggregate.links))
    if aggregate.security != PLAINTEXT:
        reader = reader.option("security", encode_security(aggregate.security))
    if aggregate.maps_bootstrap is not None:
        reader = reader.option("maps_bootstrap", aggregate.maps_bootstrap)
        reader = reader.option("maps_security", encode_security(aggregate.maps_security))
    return reader.options(**options).load()


def global_topics(aggregate: Aggregate) -> list[str]:
    """Source topics that have mirrors on the aggregate. Raises KafkaError."""

    async def ask() -> list[str]:
        async with ClusterAddress(aggregate.bootstrap, aggregate.security).client() as client:
            present = (await client.metadata()).topics
            maps = await load_maps(client) if aggregate.maps_bootstrap is None else {}
        options = ReadOptions(bootstrap=aggregate.bootstrap, links=aggregate.links)
        chosen = choose_topics(options, present, chain.from_iterable(maps.values()))
        return sorted({topic.origin.topic for topics in chosen.values() for topic in topics})

    return asyncio.run(ask())


def view_names(topics: Iterable[str]) -> dict[str, str]:
    """View name to topic; topics whose names differ only in signs get a number behind."""
    names: dict[str, str] = {}
    for topic in sorted(topics):
        plain = VIEW_PREFIX + re.sub(r"\W", "_", topic.lower())
        name, number = plain, 1
        while name in names:
            number += 1
            name = f"{plain}_{number}"
        names[name] = topic
    return names


def create_views(session: SparkSession, aggregate: Aggregate, query: str = "") -> list[str]:
    """Create the views that a query mentions, or all of them; their names. Raises KafkaError.

    Each view costs a start of Python on the driver, hence only those that are needed.
    """
    topics = view_names(global_topics(aggregate))
    words = set(re.findall(r"\w+", query.lower()))
    known = [*topics, *BOOKKEEPING_VIEWS]
    wanted = [name for name in known if name in words] or known
    for name in wanted:
        if name in topics:
            view = load_table(session, aggregate, RECORDS_TABLE, topic=topics[name])
        else:
            view = load_table(session, aggregate, BOOKKEEPING_VIEWS[name])
        view.createOrReplaceTempView(name)
    return wanted
