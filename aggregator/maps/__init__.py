"""Offset maps of all links, and the answers they give.

Reading order:

    followed_topic     a topic that is replayed into memory (pure)
    topic_follower     the loop that reads such topics
    link_map           one link's map as answers about offsets (pure)
    translation        the maps of all links (pure)
    catalog            merged topics (pure)
    group_translation  committed offsets of a group
"""
