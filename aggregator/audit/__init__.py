"""Audits of the copies, at three costs.

From the topics that mirrors publish, without reading logs:

    audit_topics     the verdicts topics and journals of all links, in memory
    link_audit       a link's audit from verdicts, journal and map (pure)
    audit_document   its JSON (pure)

By reading both logs along the offset map, record by record:

    record_reader    reads both logs
    record_audit     judges each record (pure)
    record_findings  counts, faults and reasons (pure)

By reading both logs without a map:

    log_audit        compares batches, and records where batches differ
    reconciliation   compares both logs as multisets of records (pure)
    alignment        longest common subsequence of fingerprints (pure)
    fingerprint      fingerprints of batches and records (pure)
"""
