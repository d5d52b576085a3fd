"""Client quotas (KIP-13, KIP-124, KIP-546, KIP-599): how much each client may do.

entity            users, client ids, both, addresses; their znodes
quota_keys        the quotas of each kind of entity, and their values
alterations       changes by AlterClientQuotas
quota_filter      filters of DescribeClientQuotas
limits            which quota holds for a client, and with whom it is shared
windowed_rate     a rate over windows, and the wait above a quota
token_bucket      tokens that refill, for mutations
client_meters     the clients that have a quota, and what each share of it recorded
client_rates      byte rates and request time: what clients did, and their waits
mutation_tokens   partitions that clients create and delete
client_quotas     every quota that a broker applies
quota_store       SHELL: the quotas in ZooKeeper, followed
"""
