"""Configs of topics and brokers, and the levels of loggers.

`broker_entries` and `entity_entries` are what DescribeConfigs shows of brokers, and of groups and
client metrics. `alter_resources` is shared by AlterConfigs and IncrementalAlterConfigs,
`broker_loggers` by all.
"""
