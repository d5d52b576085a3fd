"""`heliograph mirror ...` and `heliograph gaps`: commands on the links of a deployment.

Reading order:

    command        the subcommands run, sync, pause, resume, throttle, retry
    repair         the subcommand repair
    worker_http    requests to the worker of a link
    local_workers  runs workers in this process
    config_sync    compares and applies configs and ACLs
    gaps           reads the journals of the links
"""
