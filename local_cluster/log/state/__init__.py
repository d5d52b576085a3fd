"""What a log knows besides its batches, and the small files that keep it.

In reading order: `epochs` (leader epochs), `producer_state` (idempotence and transactions),
`producer_snapshot` (the `.snapshot` format), `snapshot_files` (the snapshots of one log),
`checkpoints` (Kafka's text files).
"""
