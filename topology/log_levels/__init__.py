"""`heliograph log-level`: levels of the loggers of mirror workers and aggregators.

In reading order:

    chosen     which processes a name means, and which levels a command line asks for; pure
    process_loggers  the loggers of processes, over HTTP
    command    `heliograph log-level`
"""
