"""What tables share whatever their format, Iceberg or Delta.

Reading order:

    said          what the commits of a table say about their records (pure)
    sightings     until when the table is complete, per datacenter (pure)
    completeness  polls what `sightings` needs, beside the planner of a job
    open_files    the open Parquet files of a task
"""
