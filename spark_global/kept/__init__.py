"""What tables share whatever their format, Iceberg, Delta or Parquet.

Reading order:

    said          what the commits of a table say about their records (pure)
    sightings     until when the table is complete, per datacenter (pure)
    completeness  polls what `sightings` needs, beside the planner of a job
    origins       which source offsets a batch of a query has read (pure)
    batches       whether a batch of a query may be committed (pure)
    checkpoint    what the query's checkpoint says about a batch
    open_files    the open Parquet files of a task
    small_files   which files are worth a compaction (pure)
    folders       the folder of a table
    upkeep        compacts a table beside the job that writes it
    telling       what the batches of a job have done, as lines
"""
