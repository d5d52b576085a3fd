"""`heliograph audit`: compares the copies of links with their sources.

Reading order:

    command    options, output and exit codes
    question   what is asked, and the errors
    reading    the audit of a deployment's links
    published  what one link has published about its copies
    records    both logs of a link's partitions, compared record by record
    document   the JSON of that comparison (pure)
    show       tables for people
"""
