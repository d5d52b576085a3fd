"""Repair of a copy that is wrong: what is wrong, the ways to continue, and an operator's orders.

    plan          faults, diagnosis, ways and their effects; pure
    orders        the journal entries that order a repair; pure
    log_scan      whose batches lie in a copy
    examiner      reads map, journal, audit and both logs: the diagnosis
    copy_repair   answers an operator, and writes the orders

`examiner` and `log_scan` write nothing. Any worker of the link can examine any of its partitions:
everything that counts is on the clusters.
"""
