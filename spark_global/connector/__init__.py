"""Spark's own Kafka connector as a second reader of the table `records`.

The connector decodes in the JVM. Origins come from the offset maps by a join, so its rows have the
columns of `format("heliograph")`.

Reading order:

    jars      the jars that it needs, as settings of a session
    logins    security settings as options, without any secret
    segments  offsets of a partition with one origin; pure
    records   the table `records`
    streams   its streams, whose batches get their origins when they run
"""
