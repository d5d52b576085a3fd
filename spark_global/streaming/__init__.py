"""`readStream` of `format("heliograph")`: the records of an aggregate as a stream.

Reading order:

    reader     the stream reader, which Spark calls
    planner    asks the cluster where the stream can go on, and plans a batch
    positions  the offsets of a stream, as Spark's checkpoint has them (pure)
    discovery  the links of a stream, and the end of the known origins (pure)
    following  reads offset maps again and again, each time only what is new
    completeness  until when a batch is complete, per datacenter
    sharing    how partitions share the limit of a batch (pure)
    sizes      estimates bytes per record from recent batches
    starting   the first position of each partition
    listener   follows queries, and publishes their progress
    lag        how far a query is behind, per datacenter (pure)
    progress   what a query says of itself beside its committed offsets (pure)
    publishing publishes positions as a consumer group, and reads what streams published
    moving     moves a checkpoint to another cluster
    translation  positions of another cluster, by the offset maps (pure)
    checkpoint copies a checkpoint with other positions
"""
