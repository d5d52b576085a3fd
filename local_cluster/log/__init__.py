"""The storage of one broker: partition logs in Kafka's on-disk formats.

From the outside in: `directory` (log directories), `partition` (the log of one replica), `segment`
(its files), `state` (epochs, producers, checkpoints), `compaction`, `disk` (the operating system),
`config` (topic configs). Start with README.md.
"""
