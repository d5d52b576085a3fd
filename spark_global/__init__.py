"""An aggregate cluster as Spark tables: the reader, global views, the exact audit.

Reading order:

    links      the links into an aggregate, as text
    followed_links  the links of a running stream, from a file
    addresses  a cluster's address and security settings, as text
    source     the Python Data Source `format("heliograph")`
    view_names  the names of views
    views      the views `global_<topic>`
    streaming  `readStream` of it
    streamable  which views a stream can fill
    stream_sql  SQL over them, as streams
    narrowing  what a query needs of the records: columns, and bounds from its filters
    connector  Spark's Kafka connector as a second reader
    catalogue  questions over all datacenters
    windowing  windows as a stream that wait for datacenters
    audit      the exact audit, in SQL
    session    the Spark session and its settings
    jvm        the archive of classes with which it starts sooner
    shipping   the archive of this package for executors
    sql        `heliograph sql`, with prompt, progress and printing
    without_pandas  spares a command the import of pandas
    materialize  `heliograph spark materialize`
"""
