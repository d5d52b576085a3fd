"""The replicas of partitions: high watermark, ISR, leader epochs, followers.

Reading order:

    partition            one replica: leadership, appends, reads, high watermark
    in_sync              the ISR as the leader sees it: commits, shrink, expand (pure)
    purgatory            delayed produces and fetches of a replica
    log_flushes          which flusher makes its log durable
    peers                the other brokers, as a leader must know them
    truncation           where two logs diverge, and what a follower truncates (pure)
    replica_set          all replicas of a broker, as the metadata assigns them
    follower/            fetches from leaders
    isr_proposer         proposes ISR changes to the controller
    offline_replicas     replicas that a disk does not let the broker serve (pure)
    offline_reporter     reports them to the controller
    stray_replicas       logs of deleted topics (pure)
    log_dir_moves        moves of replicas between log directories
    future_replica       the next step of such a move (pure)
    throttle, rate_quota        how fast replicas outside the ISR are filled (the quota is pure)
    replica_selector     which replica a consumer reads from (pure)
"""
