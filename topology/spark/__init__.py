"""`heliograph spark ...`: `command` has its commands, `options` the options of queries.

`compaction` has `spark compact`, and the compactions beside `spark materialize`.

The work is in `spark_global`.
"""
