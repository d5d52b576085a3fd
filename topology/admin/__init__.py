"""`heliograph topic|config|broker|link`, and what all commands on one cluster share.

In reading order:

    output               one document of plain values, as table, JSON or YAML
    cluster_choice       the options that choose a cluster, and how a command reaches it
    changes, carry_out   planned changes: dry run, confirmation, result, exit code
    arguments            `name=value`, `topic:0,3-5`, offsets and times; pure
    cluster_reading, places          topics, log directories, offsets
    topic_command, trim_command      topics
    config_rows, config_command      configs of any resource
    broker_reading, broker_command   brokers and elections
    link_command         links of a deployment
"""
