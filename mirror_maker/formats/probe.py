"""Probe topics of links: their names, on the source and on the target. Pure.

The aggregator writes one record per interval into the probe topic of a link, on the link's source.
It reads the copy on the aggregate (`aggregator/probe`). A link copies its own probe topic and no
other one.

Every name ends in `.internal`, so MirrorMaker 2's default `topics.exclude` excludes it. Other
mirrors, catalogs and views never show a probe topic or its copy.
"""

from __future__ import annotations

from typing import Final

PROBE_TOPIC_PREFIX: Final = "heliograph-probe."
PROBE_TOPIC_SUFFIX: Final = ".internal"
MERGED_PROBE_COPY: Final = "heliograph-probes.internal"
"""The copy for every link with `merge`: their probe records interleave in one partition. No link
has a probe topic of this name."""
PROBE_PARTITION: Final = 0
"""The partition that is written and read. A probe topic has no other one unless someone else
created it."""


def probe_topic_name(link: str) -> str:
    """Return the name of a link's probe topic on its source."""
    return f"{PROBE_TOPIC_PREFIX}{link}{PROBE_TOPIC_SUFFIX}"


def is_probe_topic(topic: str) -> bool:
    """Return whether a source topic is the probe topic of any link."""
    return (
        topic.startswith(PROBE_TOPIC_PREFIX)
        and topic.endswith(PROBE_TOPIC_SUFFIX)
        and len(topic) > len(PROBE_TOPIC_PREFIX + PROBE_TOPIC_SUFFIX)
    )
