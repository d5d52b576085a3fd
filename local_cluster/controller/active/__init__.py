"""The elected controller: runs on one broker, for one term. Writes to ZooKeeper, informs brokers.

Reading order:

    active_controller   one term: its loop, its lock, and the requests to the controller
    event_applier       the state: apply an event, write its effects, publish the image
    change_processor    fired watches and reports of brokers become events
    cluster_reader      reads the cluster's znodes
    state_writer        writes partition states
    isr_writer          writes the ISRs that leaders propose (AlterPartition)
    assignment_writer   writes replicas and reassignments into topic znodes
    topic_admin         creates and deletes topics, adds partitions, starts reassignments
    topic_purger        removes the znodes of deleted topics
    admin_znodes        requests that old tools make by writing a znode
    publisher           brings every broker to the newest image
    image_sender        brings one other broker to the newest image
"""
