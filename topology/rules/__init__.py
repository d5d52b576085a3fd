"""Rules between several entries of a topology, over all entries that are valid by themselves. Pure.

Reading order:

    parts            the valid entries of a file
    checks           runs every rule
    cluster_rules    the keys of one cluster that go together
    security_rules   listeners, connections and the authorizer
    ticket_rules     Kerberos: services without it, principals per host
    http_rules       HTTP ports that other hosts reach
    supervisor_rules  HTTP ports of supervisors
    rights_rules     users and ACLs that a cluster declares
    quota_rules      client quotas that it declares
    address_rules    ports that two entries claim, hosts of mirror workers
    zookeeper_rules  embedded servers, the ZooKeeper of each cluster
    link_rules       references, loops and collisions of links
    kafka_configs    known config names and values
    copy_loops       records that links would copy for ever, or twice
    name_collisions  two copies with one name
    example_topics   made-up topics that match patterns
"""
