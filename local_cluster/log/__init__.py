"""The storage of one broker: partition logs in Kafka's on-disk formats."""
