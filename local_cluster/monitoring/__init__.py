"""Health and metrics of a broker over HTTP, under the names that Kafka's have.

Reading order:

    monitored            the parts of a broker that are read
    scrape               all metrics at one moment, in steps that do not hold the loop
    sliced               how long work yields to other callbacks
    broker_families      metrics of the broker as a whole
    rights_families      ACLs and denials
    quota_families       clients with quotas, and how long they wait (pure)
    partition_rows, topic_rows, group_rows, request_rows    metrics with many label values
    lag/                 high watermarks at other brokers, and times of unread records
    confluent_names      the same metrics under Confluent's names (pure)
    loop_monitor         delay and idle time of the event loop
    process_stats        CPU, memory, descriptors, disks
    http                 /metrics, /livez, /healthz, /readyz
    push/                a push by OpenTelemetry
    service              starts and stops all of these
"""
