"""Bring a deployment up, change it, take it down.

Reading order:

    own_part             the part of a deployment that belongs to this host
    preflight            the plan, and the checks before anything changes
    broker_moves         checks that brokers would not lock each other out, on any host
    up                   `up`: hands the deployment over and waits until everything runs
    handover             hands a deployment to the supervisor, and starts one if none lives
    crash_loops          notices daemons that exit again and again
    ensemble_rollout     when `up` changes the members of ZooKeeper ensembles
    restart_stages       which broker of a rolling restart is next (pure)
    rolling_restart      carries a rolling restart out, stage by stage
    restart_turn         whose turn it is to restart brokers, among the hosts of a cluster
    cluster_rights       compares users, ACLs and quotas of one cluster with the file, applies them
    rights_rollout       when `up` applies them in each cluster
    zookeeper_client     clients of the ZooKeeper of a cluster, for commands
    znode_acls           counts the ACLs of znodes, and changes them to Kafka's or back
    controller_metadata  the partitions of a cluster, as its controller knows them
    down                 `down`: stops everything, with or without a supervisor
"""
