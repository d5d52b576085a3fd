"""The mirror's simulation over the product of its modes: `python -m tests.sim.mirror_product`.

A seed draws a cell (`cells`): how copies are named, what becomes of the source, how links share
workers, how many flows there are, which faults happen. `world` builds the clusters and the worker
processes (`process`), `writing` is the source's own memory of what it wrote, `disturbances` does
what the cell says, `play` is one seed from the beginning to the end.

The judges (`judge_records`, `judge_translation`, `judge_audit`) take only three things: what the
writers were told (`writing`), the logs of both doubles, and the published topics (`evidence`). They
walk the logs themselves and know nothing of what the mirror believes.
"""
