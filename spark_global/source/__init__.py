"""The Python Data Source `format("heliograph")`.

Users import its class as `spark_global.source.data_source.HeliographDataSource`.

Reading order:

    data_source  the data source and its reader, which Spark calls
    options      the options of a read
    tables       the schemas of the tables
    planning     asks the clusters what a read covers
    coverage     topics, origins and ranges of a read (pure)
    pruning      bounds that exclude offsets (pure)
    splits       the range of one Spark task
    reading      reads one range from its leader
    record_reading  what the asked columns of `records` need
    decoding     record batches to columns (pure)
    columns      columns of records, as numpy and Arrow arrays (pure)
    provenance   the offset map as arrays (pure)
    maps         reads the published offset maps
    asked        the committed offsets of groups, and the configs of topics
    verdicts     reads what the mirrors publish: verdicts of audits, journals of gaps
    stated       rows that say how complete a batch of a stream is
    rows         columns and provenance to the rows of a table (pure)
"""
