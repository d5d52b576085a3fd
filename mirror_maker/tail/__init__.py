"""The *tail*: the link's own batches on the target after the end of the map. Pure.

A worker writes batches first and the map later. After it dies, the tail is what it wrote and did
not map. A proof (`resume`) finds the source offsets of these copies.

    target_tail   reads the target's log: own batches, copies that are missing, foreign records
    places        where the copies of a tail come from: runs and holes
    alignment     finds these places if the source or the target lost records meanwhile

If nothing was lost, `resume/pairing.py` pairs tail and source batch by batch.
"""
