"""The asyncio shell of a broker: the process, its sockets, its disks.

Reading order:

    process              the command line, signals, the exit code
    broker               what it is made of, start and stop
    listeners            its sockets, and the connections that they accept
    accept               which connections are accepted, and how many
    connection           one client connection
    request_dispatch     decodes a request and calls its handler
    request_time         how long handlers take, for the quota of it
    slot                 the place of a request in its queue of responses
    pausing              why a connection is not read for some time
    keep_alive           the system's probes of silent connections
    outbox               sends responses, file slices by sendfile
    socket_waits         waits until an outbox can send again
    flushing             fsyncs of many logs in rounds
    metadata_listeners   passes metadata changes to the parts of the broker
    applied_configs      what follows from broker configs that change at run time
    broker_rights        the authorizer, and the ACLs that it follows
    housekeeping         checkpoints, retention, full disks
    log_cleaner          compaction, by a compactor_process
"""
