"""Membership, topics and leaders: ZooKeeper under Kafka's layout, and who decides."""
