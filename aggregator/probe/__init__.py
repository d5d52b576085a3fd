"""Probes each link end to end with aiokafka, a Kafka client that shares no code with the mirror.

    sending    --one record per interval-->  probe topic on the link's source
                                                  |  mirror
    reading    <--the records that arrive---  its copy on the aggregate

`record`, `ledger`, `latencies`, `link_probe` and `settings` are pure. `clients`, `sending`,
`reading` and `prober` do the I/O. `instruments` exports the metrics.
"""
