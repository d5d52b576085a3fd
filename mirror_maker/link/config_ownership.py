"""Which copies a link leads, so that their configs and ACLs follow its source. Pure.

Two clusters that mirror each other under identical names would tell each other their configs for
ever. So each copy has one link that leads it, as each record has one origin:

- a copy whose name tells its origin (`<source alias>.<topic>`) is led by the only link that may
  write into it;
- any other is led by the link that has made it. That relation has no loops: the topic that a copy
  was made from was there before it;
- or by a link whose settings say so (`leads`), for topics that were on both sides before; not
  where the original is led from the target. Of two links that say it of each other neither leads;
- a topic of `merge` is led by none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from mirror_maker.formats.marks import OwnedCopy
from mirror_maker.rules.topic_filter import NameFilter
from mirror_maker.settings import LinkSettings


class CopyPair(NamedTuple):
    """A source topic and its copy, as they are now."""

    topic: str
    source_topic_id: UUID
    copy: str
    target_topic_id: UUID


def why_not_owned(
    pair: CopyPair, settings: LinkSettings, own: OwnedCopy | None, opposite: Iterable[OwnedCopy]
) -> str | None:
    """Why the link does not lead a copy; None where it does.

    `own` is the link's mark of the copy, `opposite` are the marks on the source of links that come
    from the target.
    """
    names = settings.names
    if names.tells_origin(settings.source_alias, pair.topic):
        return None
    if names.is_merged(pair.topic):
        return "several links write into it"
    if any(_is_of_the_same_two(mark, pair) for mark in opposite):
        return f"a link from the target leads {pair.topic} at the source"
    if is_created(pair, own) or is_chosen(pair.topic, settings):
        return None
    return "it was there before the link; `leads` may say that its source leads it"


def _is_of_the_same_two(opposite: OwnedCopy, pair: CopyPair) -> bool:
    """Whether a mark of the opposite direction is about the two topics that are there now.

    Where the original was deleted and came back by the opposite link, the copy's mark is of the
    topic that is no more: the copy has become the original.
    """
    return (
        opposite.topic == pair.topic
        and opposite.target_topic_id == pair.source_topic_id
        and opposite.source_topic_id == pair.target_topic_id
    )


def is_created(pair: CopyPair, own: OwnedCopy | None) -> bool:
    """Whether the link has made the copy that is there now."""
    return own is not None and own.is_created and own.target_topic_id == pair.target_topic_id


def is_chosen(topic: str, settings: LinkSettings) -> bool:
    """Whether the settings say that the link leads copies of this topic."""
    return NameFilter(settings.leads, ()).selects(topic)


def ownership_mark(pair: CopyPair, *, is_created: bool) -> OwnedCopy:
    """What the link writes down of a copy that it leads."""
    return OwnedCopy(
        topic=pair.copy,
        target_topic_id=pair.target_topic_id,
        source_topic=pair.topic,
        source_topic_id=pair.source_topic_id,
        is_created=is_created,
    )
