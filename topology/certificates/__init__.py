"""`heliograph certificates`: what a topology file names and nobody has made yet, for trying out.

In reading order:

    needed             the certificates, passwords and clients that a file names (pure)
    authority          signs certificates of brokers
    client_properties  properties of Java clients and of librdkafka (pure)
    generate           writes the files that are missing
    command            `heliograph certificates`
"""
