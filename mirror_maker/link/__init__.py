"""One link on one worker.

- `link`: composes the rest; its flows, and the state of the link.
- `link_parts`: makes the parts of a link from its clients and settings.
- `discovery`, `topic_plan`: what both clusters have, and which copies to create.
- `compacted_topics`, `map_flusher`: writes what the maps have gained, earlier for compacted topics.
- `operator_controls`: follows an operator's orders.
- `config_ownership`, `owned_copies`: which copies follow the link in configs and ACLs.
- `stalled_partitions`: the partitions that copy nothing, the worst first.
"""
