"""Upkeep of a view that `heliograph spark materialize` keeps as Parquet files.

Spark writes the files, and the log in `_spark_metadata` that names them. Reading order:

    sink_log    the log: which files a table has
    columns     the columns of a file, as another writer must write them (pure)
    replaced    which files were replaced, and since when
    durable     files that are whole before their name is there
    compacting  rewrites small files beside a running query
    maintaining `heliograph spark compact`: small files, and files that the log does not name
"""
