"""`heliograph spark ...`: `command` has its commands, `options` the options of queries.

The work is in `spark_global`.
"""
