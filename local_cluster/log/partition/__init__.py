"""The log of one replica.

Start with `partition_log`: it holds the state (`log_state`) and the parts.

- writing: `leader_appender`, `follower_appender`, `log_writer`, `log_flusher`
- reading: `log_reader`, `timestamp_lookup`
- removing: `log_cleanup`, `truncation`
- opening: `recovery`; moving: `relocation`, `partition_directory`
- checking produced batches: `batch_checks`, `record_checks`
"""
