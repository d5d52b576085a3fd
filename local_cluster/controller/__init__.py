"""The control plane: membership, topics, leaders and ISRs, in ZooKeeper under Kafka's layout.

The rooms, lowest first; each imports only those before it:

    model       nouns and their bytes
    zk          ZooKeeper behind a port
    decisions   what the controller decides, without I/O
    active      the elected controller
    member      this broker as a member, and the front for the rest of the broker
"""
