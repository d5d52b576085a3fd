"""The group coordinator: groups and committed offsets as replayed records.

Reading order:

- `records`, `record_reader`: keys and values of `__consumer_offsets`
- `requests`: what a shard is asked, and its responses
- `timers`: deadlines as data
- `classic/`: groups of the classic protocol (JoinGroup, SyncGroup)
- `consumer/`: groups of the consumer protocol (KIP-848)
- `offsets`: committed and pending offsets
- `shard_state`, `offset_requests`, `shard`: one partition of `__consumer_offsets`
- `topic_regex`: patterns over topic names
- `offset_times`: when the first unread record was appended, and the request between brokers
- `topic_deletions`: topics whose committed offsets must go
- `coordinator`: one broker's coordinator
"""
