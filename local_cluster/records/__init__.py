"""Record batches v2 as pure functions over bytes: no I/O, no clock."""
