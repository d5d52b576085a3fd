"""From fetched source batches to batches for the target and an entry in the map. Pure: no I/O.

    batch_selection     which batches of a fetch response are copied, and how
    coalescing          a run of tiny source batches made into one batch
    passthrough         a selected batch made ready for the target, as bytes where possible
    batch_splitting     batches that the target refuses, split into smaller ones
    replicator          the copying state of one flow: queue, window, positions
    open_block          the block of the offset map that grows with acknowledgements
    receipts            what was acknowledged, for the audit
    mm2_offset_syncs    what was acknowledged, for readers of MirrorMaker 2's topics

A *flow* is one source partition that is copied to one target partition.
"""
