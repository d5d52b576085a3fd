"""`heliograph rebalance`: moves replicas to new brokers, and away from brokers that leave.

It uses only Kafka's own APIs, so the cluster may be any Kafka.

Reading order:

    command    options, output and exit codes
    run        one run: reads the layout, plans, executes
    planner    which replicas move (pure)
    layout     where the replicas are, as the brokers report it
    execution  carries a plan out
    throttles  Kafka's replication throttles
    show       tables for people
"""
