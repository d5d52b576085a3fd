"""Windows over all datacenters as a stream: strict, fast and per datacenter; questions of them.

Reading order:

    closing   which windows a batch closes, and which records are late (pure)
    stored    the state after a batch as JSON (pure)
    files     small files on any storage that Spark knows
    keeping   the streaming query: counts a batch, closes windows, writes rows
    latest    one row per window of a table of fast windows, for readers (pure)
    closed_questions  questions that are asked of closed windows
    parts     which batches hold the records of a window; state as JSON (pure)
    ranking   the most frequent keys of closed windows, batch by batch (pure)
    streamed  windows and top keys as streaming DataFrames, for SQL over streams
    answering  the streaming query: keeps records until their windows close, asks, writes rows
"""
