"""A small asyncio Kafka client for raw record bytes and admin calls.

Reading order:

    client               `KafkaClient`: every call with its types
    model                the nouns: metadata, positions, one result type per call
    calls                how a call finds its broker, and follows a controller or coordinator
    broker_directory     where the brokers listen, and an open connection to each
    connection           one connection: pipelined requests
    versions             the versions that this client speaks
    fetching             Fetch requests and responses, and fetches under a quota
    fetch_session        a fetch session with one broker (KIP-227, pure)
    produce_batches      the batches of one Produce request, and their results
    reader               reads a small topic from start to end
    group                membership in a classic consumer group
    admin/               ACLs, configs, group members, group offsets
    auth/                TLS and SASL
"""
