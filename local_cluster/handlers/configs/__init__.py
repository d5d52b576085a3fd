"""Configs of topics and brokers, and the levels of loggers.

`alter_resources` is shared by AlterConfigs and IncrementalAlterConfigs, `broker_loggers` by all.
"""
