"""What a topology runs. Pure, except `state_dir`.

Reading order:

    deployment      daemons, clusters and links as plain values; `deployment.json`
    render          a topology to a deployment
    broker_daemons  ... its ZooKeeper servers and brokers
    link_daemons    ... its mirror workers and aggregators
    declared_rights  users, ACLs and quotas of a cluster
    supervisor_ports  the HTTP ports of supervisors
    zookeeper_access  how brokers and commands use the ZooKeeper of a cluster
    zookeeper       files and command of an embedded ZooKeeper
    parts_of_hosts  which daemons belong to this host, and which to others
    plan            the difference between a deployment and the daemons that run
    rights_difference  steps from a cluster's users, ACLs and quotas to those of the file
    removals        what an edited file removes: brokers, log directories, the last rights
    protocol_changes  security that cannot change in one step while brokers run
    inter_broker_moves  steps in which brokers would lock each other out
    state_dir       the state directory, its files and its lock
    aggregate_view  an aggregate cluster as the settings of Spark's readers
"""
