"""The log directories of a broker.

In reading order: `log_store` (all of them), `log_directory` (one), `log_table` (its logs),
`offset_checkpoints`, `owner`, `clean_shutdown`, `stray_logs` (logs without a replica),
`future_logs` (copies that move here).
"""
