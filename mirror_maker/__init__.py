"""The mirror: copies topics between clusters exactly once, and keeps an exact offset map.

The rooms, in the order of their imports:

    formats      the published records: map, journal, receipts, verdicts
    rules        what a link copies, and its policy for each trouble
    clusters     clients of both clusters, and what discovery learned
    copy         from fetched batches to batches for the target
    tail         own batches on the target after the end of the map
    stores       topics of state on the target
    metrics      lag, latency, rates, spans
    resume       the proof of where a flow continues
    flow         one partition: fetch, copy, send, and trouble
    audit        acknowledged batches compared with the target's log
    repair       a wrong copy: what is wrong, and an operator's orders
    link         all flows of one source cluster
    topic_sync   configs, ACLs and deletions
    rights_sync  ACLs of groups and transactional ids, quotas, SCRAM users
    group_sync   positions of consumer groups
    worker       the process: group of workers, HTTP
"""

import local_cluster  # noqa: F401  (chooses between compiled and plain modules)
