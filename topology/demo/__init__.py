"""`heliograph demo`: the whole system on real input.

Reading order:

    run       entry point, exit codes, and what is stopped when
    steps     deploy, feed, mirror, move a consumer group, stream, query, audit
    prepare   checks of the topology and the state directory
    flights   the input as records
    clients   how outside clients connect
    feed      produces the records
    mirrored  counts the mirrored records, and waits for the rest
    boards    the consumer group `boards`, moved to the aggregate
    stream    counts the flights as they arrive, on Spark
    outage    shuts one datacenter down, and asks what is known meanwhile
    answers   the Spark queries
    dashboard the page while the demo runs, and its charts at the end
    report    tables, Parquet files, the page, the JSON document
"""
