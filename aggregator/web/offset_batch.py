"""Many source offsets to translate in one request: the body of `POST /api/v1/translate`.

{"link": "jfk-nyc", "offsets": [["flights", 0, 123], ...]}
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from aggregator.web.parameters import OFFSET_MAX, PARTITION_MAX
from aggregator.web.problems import bad_parameter
from local_cluster.foreign_json import parse_json

OFFSETS_MAX: Final = 10_000
"""Offsets in one request."""


class OffsetBatch(NamedTuple):
    """Source offsets of one link, as (topic, partition, offset)."""

    link: str
    offsets: list[tuple[str, int, int]]


def parse_batch(body: bytes) -> OffsetBatch:
    """Return the offsets of a body. Raises Problem, which names the first wrong entry."""
    try:
        document: Any = parse_json(body)
    except ValueError as error:
        raise bad_parameter("body", f"the body is not JSON: {error}") from error
    if not isinstance(document, dict) or document.keys() != {"link", "offsets"}:
        raise bad_parameter("body", "the body must be an object with the keys link and offsets")
    link, found = document["link"], document["offsets"]
    if not isinstance(link, str):
        raise bad_parameter("link", "link must be the name of a link")
    if not isinstance(found, list) or len(found) > OFFSETS_MAX:
        raise bad_parameter("offsets", f"offsets must be a list of at most {OFFSETS_MAX} entries")
    return OffsetBatch(link, [_entry(index, each) for index, each in enumerate(found)])


def _entry(index: int, entry: Any) -> tuple[str, int, int]:
    match entry:
        case [str(topic), int(partition), int(offset)] if (
            topic
            and not isinstance(partition, bool)
            and not isinstance(offset, bool)
            and 0 <= partition <= PARTITION_MAX
            and 0 <= offset <= OFFSET_MAX
        ):
            return topic, partition, offset
    raise bad_parameter("offsets", f"offsets[{index}] must be [topic, partition, offset]")
