"""The *proof* of where a flow continues: read from the logs, never from a counter.

A flow is proved after every start, takeover, error and lost answer. Nothing is kept from memory.

What is there, in the order in which it is written:

1. The *registration*: the link's producer id, in its map topic.
2. The *opening* of a flow: from which source offset on, to which target offset on, it is copied
   with (producer id, epoch), sequences from 0. It is read back before the first batch goes out.
3. Batches on the target, with (producer id, epoch, sequence), acks=all, at most five of a partition
   unacknowledged. A broker recognizes a repetition among that many.
4. The *map*: where acknowledged batches are, at most every `map_flush_ms` (a fifth of it for
   compacted source topics).

The steps of a proof, in this order because each relies on the one before:

1. The map: the opening of the highest epoch and the last block of that epoch. They say source
   position S, target position T, next sequence Q.
2. The target from T-1 to the high watermark. The batch at T-1 must be ours and end at sequence Q-1.
   Our later batches are the *tail*; their sequences continue from Q.
3. The source from S, read_committed. Its copyable batches are paired with the tail in order.
4. The flow continues after the last pair, with the same producer id and epoch at the next sequence.

Why this is right. The copy is a function of the source: the n-th copyable record after the opening
has sequence n, whichever worker copies it. So a sequence is a *conditional append*. Let a write of
a dead, paused or overlapping worker with sequence n be in flight:

- It lands before step 2 read the target: it is in the tail, and paired.
- It lands between step 2 and our write of n: the broker answers ours as a repetition, with the
  original offset. That is true for both, as they are the same records. Or it refuses ours with
  OUT_OF_ORDER_SEQUENCE_NUMBER (45), if the other batch has other bounds; then we prove again.
- It lands after ours: the broker answers it as a repetition, or refuses it.

So every record is appended once, and its place is either acknowledged to us or found in step 2. Two
workers that both believe they own a flow are safe, only wasteful; the group's lease bounds the
waste.

Three cases need more than that:

- *Probation* (`copy/replicator.py`): the first batches after a proof are read back.
- A new producer epoch is no conditional append: the target must be quiet first (`quiet_period`).
- Source or target lost records that were copied and not mapped: `tail_places`, `tail_reader`.

docs/design/mirror-exactly-once.md has the assumptions. The modules, in reading order:

    source_log        one source partition, as a proof reads it
    tail_reader       step 2: the tail, and how many copies are missing
    tail_places       step 3: pairs the tail with the source, or aligns what is left of it
    pairing           the pairing itself, pure
    divergence        whether the source still has what was copied
    log_comparison    steps 2 and 3 together
    journal_entries   what is not copied, read from the journal and written there
    foreign_records   records in a copy that the link did not write
    start_lookup      where a flow without an opening begins; mm2_takeover: behind MirrorMaker 2
    quiet_period      the wait before a new producer epoch
    generations       a flow opened again after its source log was replaced, or by a repair
    opening           step 1: the opening, found or written
    proof             all steps
    raise_epoch       a new epoch after the target refused the producer's state
"""
