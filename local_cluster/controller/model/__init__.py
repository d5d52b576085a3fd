"""The nouns of the control plane and their bytes. Pure: no I/O, no clock, no decisions.

Reading order:

    cluster_image      brokers, topics, partitions; an image of the cluster, the delta of two images
    cluster_state      what the active controller knows beyond the image
    events             what happens to the controller (events), and what it then writes (effects)
    metadata_cache     the image on each broker, and what a delta changed in it
    election_counts    elections between two images, for metrics
    encoded_topics     the topics of Metadata responses, kept encoded
    topic_requests     topics and partitions to create; legal topic names
    isr_proposals      an ISR that a leader proposes, and the fields of AlterPartition
    delta_json         bytes of the private inter-broker requests
    znode_paths        every path in ZooKeeper
    znode_access       who may read and change a znode, as in Kafka
    znode_json         how payloads are encoded, shared by the codecs below
    broker_znodes      payloads: brokers, controller, cluster id, producer ids
    topic_znodes       payloads: assignments, partition states, moves and elections of old tools
    config_znodes      payloads: configs and their change notifications
    format_level       payload: the level of all formats, and who may work at it
"""
