"""`heliograph why`: why something is not copied, behind, refused or doubted.

In reading order:

    facts            what is known when it decides; pure
    pattern_misses   why a name does not match patterns; pure
    cluster_causes, link_causes, topic_causes, group_causes, record_causes    the decisions; pure
    record_fate      an offset map and a journal about one offset; pure
    collect          gathers the facts
    command          `heliograph why`
"""
