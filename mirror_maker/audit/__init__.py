"""The audit of a link: the mirror's receipts, compared with the target's log.

    Sender --acknowledged--> copy/receipts --receipts topic--> auditor --verdicts topic--> readers
                                                                 ^
    target's log, read in the background within a CPU budget ----+

    auditor              the rounds of one link: which flows, in which order
    receipts_reader      reads the receipts topic
    receipts_feed        hands its records to the flows that they are about
    receipt_offsets      from which offset each flow needs records; pure
    copy_reader          reads the copies with fetch sessions
    copy_configs         the configs of copies that explain differences
    cpu_budget           the audit's share of a core, and its work in pieces
    flow_audit           what the auditor keeps of one flow
    log_check            compares one flow's receipts with its log; pure
    receipt_queue        the receipts that wait for that; pure
    evidence             a batch seen, a receipt expected, a verdict; pure
    tally                verdicts added up; pure
    verdict_publisher    publishes the verdicts of a link, and checks that they stand
    explained_findings   findings that the journal explains; pure
    findings             findings in words; pure

`formats/receipts.py` and `formats/verdicts.py` are what is published. A *verdict* is the result for
one batch; a verdict that something is wrong is a *finding*.
"""
