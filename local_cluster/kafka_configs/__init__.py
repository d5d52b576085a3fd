"""The configs of Kafka 4.4: names, types, defaults, bounds and documentation. Pure.

- `definition`: one config, and the check of a value
- `table`: every config of brokers, topics, groups and client metrics
- `groups`: the configs of a group: checks, values in use
- `client_metrics`: the configs of a client metrics subscription: checks
- `address_limits`: limits by address, such as max.connections.per.ip.overrides

tests/golden/generate/KafkaConfigs.java writes `kafka_4_4_configs.json` with Kafka's own classes.
"""
