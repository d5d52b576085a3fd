"""JSON documents of the HTTP API, as pure functions; unknown is null, never 0."""

from __future__ import annotations

from typing import Any

from ..aggregate import Aggregate
from ..catalog import Catalog
from ..groups import GroupTranslation
from ..settings import LinkSettings
from ..translation import TranslatedOffset

Document = dict[str, Any]


def translated_offset(answer: TranslatedOffset) -> Document:
    """One offset on both sides of a link."""
    return {
        "link": answer.link,
        "datacenter": answer.datacenter,
        "topic": answer.topic,
        "partition": answer.partition,
        "offset": answer.offset,
        "state": answer.state.value,
        "target_topic": answer.target_topic,
        "target_offset": answer.target_offset,
    }


def group(answer: GroupTranslation) -> Document:
    """A group's positions on both sides of a link."""
    return {
        "link": answer.link,
        "group": answer.group,
        "exact": answer.is_exact,
        "partitions": [translated_offset(part) for part in answer.partitions],
    }


def link(aggregate: Aggregate, settings: LinkSettings) -> Document:
    """One link and how far its map was read."""
    status = aggregate.maps.status(settings.name)
    read_at = status.read_at
    return {
        "name": settings.name,
        "datacenter": settings.datacenter,
        "source": settings.source,
        "target": aggregate.settings.aggregate,
        "map": {
            "state": status.state.value,
            "problem": status.problem,
            "partitions": None if status.map is None else status.map.partitions,
            "lag_records": status.lag_records,
            "age_seconds": None if read_at is None else round(aggregate.monotonic() - read_at, 3),
        },
    }


def links(aggregate: Aggregate) -> Document:
    """All links, in the order of the settings."""
    return {"links": [link(aggregate, settings) for settings in aggregate.settings.links]}


def topics(aggregate: Aggregate, catalog: Catalog) -> Document:
    """The merged catalog."""
    age = aggregate.topics_age_seconds
    return {
        "aggregate": aggregate.settings.aggregate,
        "age_seconds": None if age is None else round(age, 3),
        "topics": [
            {
                "name": merged.name,
                "partitions": merged.partitions,
                "parts": [
                    {
                        "topic": part.topic,
                        "datacenter": part.datacenter,
                        "link": part.link,
                        "source": part.source,
                        "source_topic": part.source_topic,
                        "partitions": part.partitions,
                    }
                    for part in merged.parts
                ],
            }
            for merged in catalog.merged.values()
        ],
        "local": [
            {"name": name, "partitions": partitions} for name, partitions in catalog.local.items()
        ],
    }
