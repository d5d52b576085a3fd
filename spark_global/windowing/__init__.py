"""Windows over all datacenters as a stream: strict, fast and per datacenter.

Reading order:

    closing   which windows a batch closes, and which records are late (pure)
    stored    the state after a batch as JSON (pure)
    files     small files on any storage that Spark knows
    keeping   the streaming query: counts a batch, closes windows, writes rows
"""
