"""A view as one Iceberg table over all datacenters. The table is the only state of its writer.

Reading order:

    layout        columns, partitions and settings of a table
    columns       columns of decoded records
    table_state   what a table and its snapshots say about their records (pure)
    deciding      whether a batch may be committed (pure)
    replacing     a snapshot in which files replace others
    staging       stages a batch as one snapshot
    table_writer  takes a table over, and commits batches to it
    packing       which ranges one Spark task writes (pure)
    file_writing  the Parquet files of a batch, written by Spark's tasks
    upserts/      the latest record of each key: which wins, and the Spark job of a batch
    keeping       the loop: plan, write, commit
    questions/    windows and other questions: the batches of a streaming query
    moving        `heliograph spark move-table`: the table follows another aggregate
    compacting    rewrites small files beside a running writer
    maintaining   `heliograph spark compact`: also old snapshots and files
    listing       the tables of a catalogue, for readers
    catalogues    opens a catalogue, also for writers
    querying      `heliograph sql --engine duckdb`
"""
