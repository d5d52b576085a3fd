"""The audit of a link: what the mirror believes of each batch, against the target's log.

    Sender --acknowledged--> flow_receipts --receipts topic--> auditor --verdicts topic--> readers
                                                                  ^
    target's log, read in the background within a CPU budget -----+

`flow_receipts` collects receipts as batches are acknowledged, `log_check` compares them with what
the log holds, `tally` adds up the verdicts, `cpu_budget` says when to go on: pure. `flow_audit` and
`auditor` read and publish; `stores/audit_topics.py` has the two topics. What is published is in
`formats/receipts.py` and `formats/verdicts.py`.
"""
