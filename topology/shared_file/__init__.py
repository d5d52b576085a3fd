"""The topology file as the hosts of a deployment agree on it, kept in each cluster's ZooKeeper.

Reading order:

    canonical    a topology as a text without secrets, its digest, and diffs (pure)
    generations  whether a host's file is the newest one, the next one, behind or a conflict (pure)
    seen_notes   the generation that this host saw last, in its state directory
    znodes       reading and writing the generation in ZooKeeper
    agreement    how the file stands now, and how an edit becomes the next generation
    acting       what `up` does with it, before it changes anything and afterwards
    show         lines for people (pure)
"""
