"""`heliograph spark ...`: `command` has its commands, `options` the options of queries.

`following` keeps a file of the links for queries that go on. `compaction` has `spark compact`, and
the compactions beside `spark materialize`.

The work is in `spark_global`.
"""
