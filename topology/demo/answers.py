"""The Spark queries on the aggregate: carriers, days, and the audit of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_global.audit import AuditReport, audit_topic
from spark_global.source.tables import END_OFFSETS_TABLE, RECORDS_TABLE
from spark_global.view_names import view_names
from spark_global.views import Aggregate, load_table

ALL: Final = "all"
"""Value of column `datacenter` for all datacenters together."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The result tables."""

    carriers: pa.Table
    """carrier, datacenter (or ALL), flights, mean_departure_delay in minutes."""
    days: pa.Table
    """day, departures, and one column per datacenter."""


def warm_up(session: SparkSession) -> None:
    """Let the idle JVM load and compile the code that the queries need."""
    session.range(20_000).selectExpr(
        "CAST(id % 7 AS STRING) AS carrier",
        """from_json('{"dep_delay":1,"year":2013}', 'dep_delay DOUBLE, year INT') AS flight""",
    ).createOrReplaceTempView("heliograph_warm_up")
    session.sql(
        "SELECT carrier, count(*) AS flights, avg(flight.dep_delay) AS delay"
        " FROM heliograph_warm_up GROUP BY GROUPING SETS ((carrier), (carrier, flight.year))"
        " ORDER BY carrier"
    ).toArrow()
    session.catalog.dropTempView("heliograph_warm_up")


def warm_up_reader(session: SparkSession, aggregate: Aggregate) -> None:
    """Read the smallest table, so that Spark starts its Python processes."""
    load_table(session, aggregate, END_OFFSETS_TABLE).collect()


def answer(
    session: SparkSession, aggregate: Aggregate, topic: str, datacenters: Sequence[str]
) -> Answers:
    """Query the flights by carrier and by day from the topic's global view."""
    (view,) = view_names([topic])
    load_table(session, aggregate, RECORDS_TABLE, topic=topic).createOrReplaceTempView(view)
    departures = session.sql(_DEPARTURES.format(view=view)).cache()
    departures.createOrReplaceTempView("departures")
    try:
        columns = ", ".join(f"count_if(datacenter = '{name}') AS `{name}`" for name in datacenters)
        return Answers(
            carriers=session.sql(_CARRIERS.format(all=ALL)).toArrow(),
            days=session.sql(_DAYS.format(columns=columns)).toArrow(),
        )
    finally:
        departures.unpersist()


def audit(session: SparkSession, aggregate: Aggregate, topic: str) -> AuditReport:
    """Audit both sides of every link, record by record."""
    return audit_topic(session, aggregate, topic)


_DEPARTURES: Final = """
SELECT datacenter, flight.carrier, flight.dep_delay,
       make_date(flight.year, flight.month, flight.day) AS day
FROM (
  SELECT datacenter,
         from_json(CAST(value AS STRING),
                   'carrier STRING, dep_delay DOUBLE, year INT, month INT, day INT') AS flight
  FROM {view}
)
"""

_CARRIERS: Final = """
SELECT carrier, coalesce(datacenter, '{all}') AS datacenter, flights, mean_departure_delay
FROM (
  SELECT carrier, datacenter, grouping(datacenter) AS is_total,
         count(*) AS flights, avg(dep_delay) AS mean_departure_delay
  FROM departures
  GROUP BY GROUPING SETS ((carrier), (carrier, datacenter))
)
ORDER BY carrier, is_total DESC, datacenter
"""

_DAYS: Final = """
SELECT day, count(*) AS departures, {columns} FROM departures GROUP BY day ORDER BY day
"""
