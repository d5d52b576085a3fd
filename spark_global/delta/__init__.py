"""A view as a Delta table: one commit per batch of a streaming query, each batch once.

Reading order:

    columns       the columns of a table, from those of the view (pure)
    file_writing  the Parquet files of a batch, written by Spark's tasks
    table_writer  creates a table, and commits batches to it
    keeping       the query: write, then commit
    maintaining   `heliograph spark compact`: small files, and files that no version has
"""
