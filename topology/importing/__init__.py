"""`heliograph import`: configurations of other programs to a topology file.

Reading order:

    command            import mm2, strimzi, server-properties
    strimzi            a KafkaMirrorMaker2 resource of Strimzi, by the keys of MirrorMaker 2 (pure)
    server_properties  a Kafka broker's server.properties (pure)
    broker_keys        ... its entries, remarks and secrets (pure)
    broker_security    ... its TLS, SASL and ACL settings (pure)
    topology_text      a topology as YAML, with what did not carry over (pure)

`topology/file/mm2_properties.py` reads MirrorMaker 2's own properties.
"""
