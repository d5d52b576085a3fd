"""`heliograph demo`: the whole system on real input.

Reading order:

    run       entry point, exit codes, and what is stopped when
    steps     deploy, feed, mirror, move a consumer group, query, audit
    prepare   checks of the topology and the state directory
    flights   the input as records
    clients   how outside clients connect
    feed      produces the records
    mirrored  counts the mirrored records, and waits for the rest
    boards    the consumer group `boards`, moved to the aggregate
    answers   the Spark queries
    report    tables, Parquet files, the JSON document
"""
