"""Publishes until when the copies of a link are complete.

- `statements`: what to write in each round: all partitions, or those that have changed. Pure.
- `publisher`: the loop; it confirms new leader epochs, and names open transactions.

`metrics/end_samples.py` has the samples, `formats/completeness/` the format.
"""
