"""What clusters answer about groups and topics, besides records and their offsets.

Reading order:

    groups   the committed offsets of consumer groups
    configs  the configs of topics
    asked_rows  both as rows of tables
"""
