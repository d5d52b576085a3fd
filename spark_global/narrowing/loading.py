"""A load that reads only what a query needs of it, with all columns of `records` nevertheless."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, StringType, StructField

from spark_global.narrowing.plans import Need
from spark_global.source.tables import RECORDS_TABLE, spark_schema

COLUMNS: Final = "columns"

Narrowed = Mapping[str, Mapping[str, str]]
"""The options by which each load is narrowed, by load."""


def narrowing_options(need: Need) -> dict[str, str]:
    """Return the options of a read that has all that is needed."""
    options = need.region.options()
    if need.columns:
        options[COLUMNS] = ",".join(need.columns)
    return options


def with_all_columns(records: DataFrame) -> DataFrame:
    """Return records with constants for the columns of `records` that were not built.

    The query may name a column that its plan does not need, as in `count(timestamp)`: a column
    that has no nulls is not looked at. So a constant is null only where the column may be.
    """
    there = set(records.columns)
    schema = spark_schema(RECORDS_TABLE)
    if there >= set(schema.names):
        return records
    return records.select(
        *(each.name if each.name in there else _constant(each) for each in schema.fields)
    )


def _constant(column: StructField) -> Column:
    match column.dataType:
        case kind if column.nullable:
            value = sql.lit(None).cast(kind)
        case ArrayType() as kind:
            value = sql.array().cast(kind)
        case StringType():
            value = sql.lit("")
        case kind:
            value = sql.lit(0).cast(kind)
    return value.alias(column.name, metadata=column.metadata)


def describe_narrowed(narrowed: Narrowed) -> list[str]:
    """Return a line for each load of which not all records are read."""
    lines = []
    for load, options in sorted(narrowed.items()):
        bounds = [f"{name} {value}" for name, value in sorted(options.items()) if name != COLUMNS]
        if bounds:
            lines.append(f"{load}: read only {'; '.join(bounds)}")
    return lines
