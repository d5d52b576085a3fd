"""Which copies a link owns, so that their configs and ACLs follow its source. Pure.

Two clusters that mirror each other under identical names would otherwise exchange their configs for
ever. So each copy has one owning link, as each record has one origin:

- A copy whose name tells its origin (`<source alias>.<topic>`) belongs to the only link that may
  write into it.
- Any other copy belongs to the link that created it. That relation has no loops: the topic that a
  copy was created from existed before it.
- A link may claim ownership in its settings (`leads`), for topics that existed on both sides
  before. The claim does not count if a link from the target owns the original. If two opposite
  links claim the same topic, neither owns it.
- A topic of `merge` belongs to no link.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from mirror_maker.formats.marks import OwnedCopy
from mirror_maker.rules.topic_filter import NameFilter
from mirror_maker.settings import LinkSettings


class CopyPair(NamedTuple):
    """A source topic and its copy, as they are at present."""

    topic: str
    source_topic_id: UUID
    copy: str
    target_topic_id: UUID


def why_not_owned(
    pair: CopyPair, settings: LinkSettings, own: OwnedCopy | None, opposite: Iterable[OwnedCopy]
) -> str | None:
    """Return why the link does not own a copy; None if it does.

    `own` is the link's mark of the copy. `opposite` are the marks on the source, of links that come
    from the target.
    """
    names = settings.names
    if names.tells_origin(settings.source_alias, pair.topic):
        return None
    if names.is_merged(pair.topic):
        return "several links write into it"
    if any(_is_about_both(mark, pair) for mark in opposite):
        return f"a link from the target owns {pair.topic} at the source"
    if is_created_here(pair, own) or is_claimed(pair.topic, settings):
        return None
    return "it existed before the link; `leads` can claim it for the link"


def _is_about_both(opposite: OwnedCopy, pair: CopyPair) -> bool:
    """Return whether a mark of the opposite direction is about the two topics that exist at
    present.

    If the original was deleted and came back through the opposite link, the copy's mark is about
    the deleted topic: the copy has become the original.
    """
    return (
        opposite.topic == pair.topic
        and opposite.target_topic_id == pair.source_topic_id
        and opposite.source_topic_id == pair.target_topic_id
    )


def is_created_here(pair: CopyPair, own: OwnedCopy | None) -> bool:
    """Return whether the link created the copy that exists at present."""
    return own is not None and own.is_created and own.target_topic_id == pair.target_topic_id


def is_claimed(topic: str, settings: LinkSettings) -> bool:
    """Return whether the settings claim copies of this topic."""
    return NameFilter(settings.leads, ()).selects(topic)


def ownership_mark(pair: CopyPair, *, is_created: bool) -> OwnedCopy:
    """Return the mark that the link writes for a copy that it owns."""
    return OwnedCopy(
        topic=pair.copy,
        target_topic_id=pair.target_topic_id,
        source_topic=pair.topic,
        source_topic_id=pair.source_topic_id,
        is_created=is_created,
    )
