"""`heliograph top`: a live screen of a deployment.

Reading order:

    command    the command: the screen, or one view as text or JSON
    samples    the samples of a scrape (pure)
    view       a snapshot, and the one before, to rows with rates (pure)
    show       rows as cells of tables (pure)
    collect    takes a snapshot: the status document, and a scrape of every process
    screen     the live screen
"""
