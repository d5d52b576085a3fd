"""The members of an embedded ZooKeeper ensemble, and how their number grows.

Reading order:

    members       the members as ZooKeeper's dynamic configuration writes them (pure)
    start_form    with which members a node starts (pure)
    node_files    the files that a node of the supervisor starts with
    nodes         the ensembles of a deployment, and what an edited file may change
    growth_step   the next step to the members of the file (pure)
    growth        carries the steps out
"""
