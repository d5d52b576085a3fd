"""A file's text to a topology, or to every problem in it.

Reading order:

    load             YAML text to a Topology; the example topologies
    yaml_document    YAML as plain values with positions
    pydantic_errors  pydantic's errors as findings
    mm2_properties   MirrorMaker 2's properties to a Topology
    mm2_keys         the keys of such a file
    jaas             the fields of a login module in such a file
    property_keys    entries of a properties file, and the remarks on them
"""
