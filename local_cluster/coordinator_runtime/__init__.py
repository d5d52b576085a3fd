"""The runtime that the group and the transaction coordinator share: shards as replayed records.

Reading order:

- `outcome`: the result of one step of a shard
- `ports`: what the runtime needs of a shard and of the leading replica
- `partitioning`: which partition a key belongs to
- `batches`, `commit_queue`: how records reach the log, and when their responses may leave
- `loading`: a shard from its log
- `partition_runtime`: one term of leadership of one partition
- `coordinated_topic`: all partitions of one internal topic
"""
