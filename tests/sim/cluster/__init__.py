"""Simulated clusters under load and faults: `python -m tests.sim.cluster`.

A seed decides everything. Reading order:

    scenarios             brokers, settings and faults of a seed
    world                 cluster, clients, faults and judges of one simulation
    sim_cluster           the brokers, and ZooKeeper's view of their topics
    nemesis, operators    faults; requests of operators
    checks, disk_checks   what must hold after every step
    committed_log         the committed records of one log
    client                requests to the leader of a partition
    producer, group       an idempotent producer; a consumer group
    ../members            groups whose members change between the two group protocols
    transactions, transaction_readers
                          a transactional id; its read_committed readers and judge
    record_deletions      DeleteRecords
    broken_variants, broken_transactions, broken_log_starts
                          brokers with one rule taken out each, which the checks must notice
    play                  plays seeds and adds up their results
    names                 partitions, logs, Anomaly
"""
