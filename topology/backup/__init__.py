"""`heliograph backup` and `restore`: what clusters keep in ZooKeeper, as readable JSON.

Reading order:

    command     backup, restore
    document    the JSON document, exact to the byte, and what a restore changes in it (pure)
    znodes      reading and writing a chroot of ZooKeeper
"""
