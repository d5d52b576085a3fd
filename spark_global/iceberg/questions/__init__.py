"""A question as an Iceberg table: one commit per batch of a streaming query, each batch once.

Reading order:

    row_writing  the Parquet files of a batch, written by Spark's tasks
    keeping      the query: take over, write, then commit
"""
