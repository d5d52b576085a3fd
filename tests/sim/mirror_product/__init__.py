"""The mirror's simulation over the product of its modes: `python -m tests.sim.mirror_product`.

A seed draws a cell (`cells`): names of copies, changes of the source, sharing of workers, number of
flows, faults. `world` builds the clusters (`topology`) and the worker processes (`process`),
`writing` is the writers' own memory, `disturbances` disturbs as the cell says, and `play` plays one
seed.

The judges (`judge_records`, `judge_translation`, `judge_audit`) take only three things
(`evidence`): what was acknowledged to the writers, the logs of both doubles, and the published
topics. They walk the logs themselves and use none of the mirror's state.
"""
