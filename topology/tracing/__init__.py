"""`heliograph trace`: the way of one record through produce, mirror and aggregate.

In reading order:

    facts           what the clusters, links and aggregators say of one record; pure
    trace_ids       the ids of its trace, and the producer's own trace; pure
    stated_times    when it was committed and copied, by a link's completeness topic; pure
    steps           the steps of its way, with times and words; pure
    show            the steps as lines; pure
    stored_record   reads a record at its place in a log
    link_reading    reads what a link published about one record
    collect         follows a record from cluster to cluster
    spans           the steps as OpenTelemetry spans, and their export
    command         `heliograph trace`
"""
