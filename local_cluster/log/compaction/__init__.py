"""Compaction of one log.

On the broker's side: `cleanable` (which logs are due), `compaction_round` (planning a round and
swapping in its segments), `compaction_job` (what the compactor's process is told and reports).
In that process: `cleaner` (a round), `record_filter` (which records survive), `raw_records`,
`key_offset_map`.
"""
