"""Answers as of a time: the cut of a read, and whether the logs still hold it.

Reading order:

    past       one cut per topic, for all views of a query
    statements reads what the mirrors state about completeness now
    samples    reads where the sources of each link ended, and what is compacted
    resolving  where sources ended, as offsets of the aggregate, or why not (pure)
    offsets    a cut: its offsets, its description, its text (pure)

`mirror_maker/formats/completeness/cut.py` says which sample counts.
"""
