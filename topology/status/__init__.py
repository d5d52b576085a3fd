"""What a deployment looks like now: what runs, what responds, and what is wrong.

Reading order:

    observe    the status of a deployment: asks everybody and assembles the document
    document   the JSON document of `heliograph status -o json` (pure)
    diagnosis  the problems in it: state, reason, remedy (pure)
    growing    the ensembles in it whose members are not those of the file yet
    peers      whether daemons of other hosts can be reached
    blocked    what cannot run before daemons of other hosts run (pure)
    reports    what mirror workers and aggregators report over HTTP
    liveness   whether daemons and external clusters respond
    process_http  one request to a mirror worker or an aggregator
    completeness  until when the aggregates are complete (pure)
    published_streams  asks the aggregates for Spark queries
    streams    Spark queries over the aggregates, as they publish themselves (pure)
    held_back  gaps of a link, and what an operator has paused or throttled (pure)
    exit_codes  the exit code of `heliograph status` (pure)
    probes     what the aggregators' probes find about the links (pure)
"""
