"""Record batches v2 as pure functions over bytes: no I/O, no clock.

In reading order:

    header         61 bytes, patched in place
    batch          encodes and decodes records
    compress       bounded codecs
    control        markers that end transactions
    committed      what read_committed readers see
    fingerprint    fingerprints of records
"""
