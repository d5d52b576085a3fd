"""Makes the archive of Spark's classes, by a session that does a little of everything."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_global.jvm.class_archive import (
    PREFIX,
    SILENT,
    SUFFIX,
    archive_path,
    cache_directory,
)
from spark_global.session import SHORT_JOB, open_session, with_java_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

ARCHIVES_KEPT_MAX: Final = 3
"""Of other versions of Java or Spark; each has some 190 MB."""


def make_archive() -> Path:
    """Make the archive, in place of a present one. Raises SparkStartError, OSError."""
    wanted = archive_path()
    wanted.parent.mkdir(parents=True, exist_ok=True)
    wanted.unlink(missing_ok=True)  # or the session would start with it
    with tempfile.TemporaryDirectory(dir=wanted.parent, prefix="archiving-") as name:
        partial = Path(name) / wanted.name
        settings = with_java_options(SHORT_JOB, f'"-XX:ArchiveClassesAtExit={partial}" {SILENT}')
        with open_session(settings=settings, log_file=Path(name) / "spark.log") as session:
            _load_classes(session, Path(name) / "rows")
        partial.replace(wanted)
    _remove_old(wanted)
    return wanted


def _load_classes(session: SparkSession, directory: Path) -> None:
    """Ask what most questions ask: groups, joins, files, Python rows, a stream."""
    rows = session.range(1_000).selectExpr("id", "id % 7 as key", "cast(id as string) as text")
    rows.createOrReplaceTempView("rows")
    session.sql(
        "select a.key, count(*) n, max(b.text) text, row_number() over (order by a.key) place "
        "from rows a join rows b on a.id = b.id where a.id > 3 group by a.key order by n"
    ).collect()
    rows.mapInArrow(_same, "id bigint, key bigint, text string").write.parquet(str(directory))
    stream = session.readStream.schema(rows.schema).parquet(str(directory))
    counts = stream.groupBy("key").count().writeStream.outputMode("complete").format("memory")
    query = counts.queryName("counts").trigger(availableNow=True).start()
    query.awaitTermination()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _remove_old(made: Path) -> None:
    archives = cache_directory().glob(f"{PREFIX}*{SUFFIX}")
    others = sorted((path for path in archives if path != made), key=os.path.getmtime)
    for path in others[: max(len(others) - ARCHIVES_KEPT_MAX + 1, 0)]:
        path.unlink(missing_ok=True)
