"""Transactions: producer ids, partitions and offsets of transactions, their end, descriptions.

`partition_verification` asks the coordinator about partitions where they are written (KIP-890).
`marker_wait` waits for the markers of the previous transaction.
`transaction_errors` maps errors to what a version knows.
"""
