"""Topic configs.

In reading order: `topic_configs` (the table of all), `description`
(where a value comes from, DescribeConfigs), `log_config` (the parsed config of one log).
"""
