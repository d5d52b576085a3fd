"""The mirror: copies topics between clusters exactly once and keeps an exact offset map.

Rooms, in reading order: `formats` (what is published), `rules` (settings that are functions of a
record or a name), `copy` (fetched bytes to batches), `tail` and `resume` (where a flow continues),
`flow` (one partition), `stores` and `clusters` (the shells around both clusters), `link` (all flows
of a link), `repair`, `audit`, `topic_sync`, `group_sync`, `metrics`, `worker` (the process).
"""
