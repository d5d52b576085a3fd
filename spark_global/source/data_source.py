"""`format("heliograph")`: a cluster as Spark tables, by a Python Data Source without any jar.

    from spark_global.source.data_source import HeliographDataSource

    spark.dataSource.register(HeliographDataSource)
    spark.read.format("heliograph").option("bootstrap", "127.0.0.1:19094").load()

`tables.py` describes the tables, `options.py` the options. Spark creates and plans the source in
its own Python processes and runs `read` in its workers, so everything here can be pickled.

Guarantees: one `load()` is one snapshot. Spark plans it at its first use and keeps the plan. So
every query on the same DataFrame or view reads the same offsets; load again to read newer ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from spark_global.source.asked.asked_rows import config_rows, group_rows, lag_rows
from spark_global.source.coverage import ReadPlan
from spark_global.source.options import ReadOptions, check_streamable, parse_options
from spark_global.source.planning import (
    plan_audit,
    plan_completeness,
    plan_configs,
    plan_groups,
    plan_journal,
    plan_progress,
    plan_read,
)
from spark_global.source.reading import read_ranges
from spark_global.source.record_reading import read_records
from spark_global.source.rows import (
    audit_rows,
    completeness_rows,
    end_offset_rows,
    fingerprint_rows,
    journal_rows,
    offset_map_rows,
    progress_rows,
    source_end_offset_rows,
)
from spark_global.source.splits import Split, split_ranges
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
    spark_schema,
)
from spark_global.streaming.reader import HeliographStreamReader

FORMAT: Final = "heliograph"


class HeliographDataSource(DataSource):
    """The data source; one instance per `load()`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._read_options = parse_options(dict(options))

    def schema(self) -> StructType:
        return spark_schema(self._read_options.table, self._read_options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        return HeliographReader(self._read_options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        check_streamable(self._read_options)
        return HeliographStreamReader(self._read_options)


class HeliographReader(DataSourceReader):
    """Plans on the driver, reads in the tasks."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        if self._options.table == GROUPS_TABLE:
            return [SmallTable(group_rows(asyncio.run(plan_groups(self._options))))]
        if self._options.table == LAG_TABLE:
            return [SmallTable(lag_rows(asyncio.run(plan_groups(self._options))))]
        if self._options.table == TOPIC_CONFIGS_TABLE:
            return [SmallTable(config_rows(asyncio.run(plan_configs(self._options))))]
        if self._options.table == COMPLETENESS_TABLE:
            statements = asyncio.run(plan_completeness(self._options))
            return [SmallTable(completeness_rows(self._options.links, statements))]
        if self._options.table == AUDIT_TABLE:
            audited, statements = asyncio.run(plan_audit(self._options))
            return [SmallTable(audit_rows(self._options.links, audited, statements))]
        if self._options.table == JOURNAL_TABLE:
            entries = asyncio.run(plan_journal(self._options))
            return [SmallTable(journal_rows(self._options.links, entries))]
        if self._options.table == PROGRESS_TABLE:
            return [SmallTable(progress_rows(asyncio.run(plan_progress(self._options))))]
        plan = asyncio.run(plan_read(self._options))
        small = self._small_table(plan)
        if small is not None:
            return [SmallTable(small)]
        # Spark requires at least one partition, so an empty read has one too.
        return list(split_ranges(plan.ranges, self._options.split_records_max)) or [NothingToRead()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        match partition:
            case Split():
                if self._options.table == RECORDS_TABLE:
                    yield from read_records(partition.ranges, self._options)
                else:
                    yield from read_ranges(
                        partition.ranges, fingerprint_rows, self._options.fetch_bytes_max
                    )
            case SmallTable():
                yield partition.rows

    def _small_table(self, plan: ReadPlan) -> pa.RecordBatch | None:
        if self._options.table == OFFSET_MAP_TABLE:
            return offset_map_rows(plan)
        if self._options.table == END_OFFSETS_TABLE:
            return end_offset_rows(plan)
        if self._options.table == SOURCE_END_OFFSETS_TABLE:
            return source_end_offset_rows(plan)
        return None


class SmallTable(InputPartition):
    """A table whose rows the plan has already."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        super().__init__(None)
        self.rows = rows


class NothingToRead(InputPartition):
    """The only partition of an empty read."""

    def __init__(self) -> None:
        super().__init__(None)
