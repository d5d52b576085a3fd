"""Until when the copies of a link are complete, and where their sources ended, as published.

- `statement`: the records of a completeness topic, as bytes.
- `listing`: which partitions a source had, as bytes.
- `listed_partitions`: the listings of all workers.
- `runs`: what one life of a worker has stated, round by round.
- `replayed_topic`: a whole topic, replayed: what holds of each partition.
- `cut`: where the sources ended at a time T, as long as the topic is kept.
"""
