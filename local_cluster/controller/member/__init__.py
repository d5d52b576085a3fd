"""This broker as a member of its cluster, and the front that the rest of the broker calls.

Reading order:

    control_plane         the front: lifecycle, requests to the controller, configs, producer ids
    cluster_member        membership over time: sessions come and go, elections follow
    registration          znode layout, cluster id, registration
    registered_access     how a broker reaches the others, and whom it accepts (pure)
    controller_election   election of the controller
    controller_role       this broker as the elected controller: its terms begin and end
    metadata_updates      images and deltas into the metadata cache, its listeners and waiters
    failure_detector      finds a dead controller before its session ends
    inter_broker          connections between brokers, and their private requests
    controlled_shutdown   leadership moves away before this broker stops
    config_changes        changes of configs as requests, from any broker
    config_writer         their znodes
    current_configs       the broker configs in use: dynamic ones over those of the settings
    producer_ids          reserves blocks of producer ids
    auto_creation         creates topics on first use
    request_tasks         work of requests that outlives its caller
"""
