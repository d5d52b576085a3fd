"""The demo's page: what is counted while the flights arrive, and the report at the end.

Reading order:

    samples   what is known at a moment, and how long a flight takes to become a row (pure)
    charts    lines over time as SVG (pure)
    document  the page as HTML, without any outside resource (pure)
    watching  takes a sample twice a second
    server    serves the page while the demo runs
"""
