"""Topics and their partitions: creation, deletion, elections, reassignments, log directories.

`mutation_quota` limits how many partitions a client creates and deletes (KIP-599).
"""
