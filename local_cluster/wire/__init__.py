"""The Kafka protocol as pure functions over bytes: no I/O, no clock."""
