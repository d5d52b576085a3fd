"""Topics that the mirror keeps on its target, read and written. Shells.

- `state_topic`: one compacted topic, read to its end and appended to; the base of the others.
- `link_stores`: all topics of one link.
- `map_store`: the offset-map topic of a link.
- `map_write_health`: how long the map could not be written.
- `journal_store`: the journal of gaps of a link.
- `audit_topics`: receipts and verdicts of a link's audit.
- `cluster_maps`: the map topics of all links into one cluster.
"""
