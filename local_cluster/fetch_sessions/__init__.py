"""Incremental fetch sessions on the broker's side (KIP-227). All of it is pure.

Reading order:

    session              one session: its partitions, and what the client knows of them
    session_cache        the sessions of consumers, and the context of one request
    follower_sessions    the sessions of followers, kept apart from those
    watches              which partitions of a session have changed
"""
