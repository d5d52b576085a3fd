"""The follower side of replication: fetches from leaders, and what the responses do to the logs.

Reading order:

    followed_replicas    everything that this broker follows, one fetcher per leader
    replica_fetcher      the fetches from one leader: a task, rounds, failures
    fetch_states         which replicas the next fetch is for (pure)
    fetch_session        the fetch session with the leader, and its requests (pure)
    leader_endpoint      the connection to the leader
    response_rules       what follows from a response (pure)
    apply_response       does that to the log
    slow_disks           replicas that wait for a slow disk
"""
