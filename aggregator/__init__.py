"""What an aggregate cluster knows: merged topics, offset translation, audits, probes; over HTTP.

Reading order:

    settings        the settings of one aggregator (frozen)
    ports           the calls to a cluster
    maps            offset maps, the catalog of topics, translation
    audit           whether the copies are complete
    probe           records of our own, sent over each link
    link_lag        the lag of a link (pure)
    aggregate       the state that loops write and HTTP handlers read
    worker_places   where mirror workers may be asked (pure)
    worker_requests requests to them, with limits
    watchers        loops that keep topics and workers up to date
    metrics         Prometheus metrics
    web             the HTTP API and a page
    service         starts and stops all of it
    process         the command line, signals, the exit code
"""
