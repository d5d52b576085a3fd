"""The two clusters of a link: clients, rights, leaders, bounds, origins, rates.

- `cluster_client`: the Kafka client of either side; notes what a principal is refused.
- `missing_rights`: those refusals as an operator reads them. Pure.
- `topic_directory`: topic ids and leaders, as discovery last saw them.
- `source_listing`: which partitions the source had, and as of when. Pure.
- `partition_log`: one partition of one cluster, read at its leader.
- `log_offsets`, `request_batching`: log bounds for many partitions in one request.
- `origins`: which producer ids belong to mirrors.
- `throttle`: bytes per second of a link. Pure.
"""
