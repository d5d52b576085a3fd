"""Counters of the hot path: plain integers in classes with slots, read at a scrape. Pure.

    latency        durations by bucket, and quantiles of the recent ones
    requests       requests and their times by API and version
    traffic        records and bytes by topic
    listener       connections of a listener

No lock, no clock, no call of a metrics library: an increment costs some tens of nanoseconds.
"""
