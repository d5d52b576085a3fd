"""Until when the merged topics are complete, over all datacenters.

- `parts`: one copy of a merged topic, and what holds it back. Pure.
- `answers`: strict and fast answers over the copies of all datacenters. Pure.
- `completeness_topics`: the topics of the links, followed.
- `completeness_document`: the JSON of the HTTP API. Pure.
"""
