"""`heliograph rebalance`: replicas move to new brokers, and away from those that leave.

planner.py says what moves (pure), layout.py reads it from the cluster, execution.py does it, and
show.py is how it looks. Everything goes through Kafka's own APIs: the cluster may be an existing
Kafka.
"""
