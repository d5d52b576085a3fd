"""Why the positions of a group are not on the target of a link, and how far it is behind. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from topology.problems import nearest_name
from topology.why.facts import Cause, LinkFacts, lag_words
from topology.why.link_causes import whole_link
from topology.why.pattern_misses import matching, near_miss

STATES: Final = {
    "clamped": ("the group is ahead of the copy; the target has the end of the copy", None, False),
    "inexact": ("the target has a safe position: some records may be read again", None, False),
    "pending": (
        "no translation is known: the target no longer has those copies",
        "the group continues at the start of the copy; it commits again as it reads",
        True,
    ),
    "active": (
        "the group has members on the target, and commits its position itself",
        "stop its consumers on the target, if the source's position is wanted",
        True,
    ),
    "ahead": (
        "the target has a later position, and `groups: {rewind: true}` is not set",
        "set it, or `heliograph group reset` on the target",
        True,
    ),
    "mixed": (
        "the copy may have records of several origins, and its map is not complete yet",
        None,
        True,
    ),
    "merged": (
        "the copy has records of several origins: the target has the greatest safe position",
        None,
        False,
    ),
    "partial": (
        "the position is held back by records of which it is unknown how far the group has read",
        "let every link into the copy run, and see `held_by`",
        True,
    ),
    "mirrored": (
        "a mirror committed the position at the source; the group did not reach it there",
        None,
        False,
    ),
    "not_told": (
        "the target does not return the group's position, so nothing is committed",
        "grant DESCRIBE on the group to the mirror's principal on the target",
        True,
    ),
    "refused": (
        "the target refuses the commit",
        "grant READ on the group and on the topic to the mirror's principal",
        True,
    ),
}
"""State of a synced position (`mirror_maker/group_sync/position_rules.py`) -> sentence, remedy,
whether it is a fault."""


def explain_group(link: LinkFacts, group: str) -> list[Cause]:
    """Return why a group's positions are not synced, and how far it is behind in both clusters."""
    return [*_unsynced(link, group), *_behind(link, group)]


def _unsynced(link: LinkFacts, group: str) -> list[Cause]:
    settings = link.settings
    if not settings.sync_group_offsets:
        return [
            Cause(
                "sync_off",
                f"link {link.name} does not sync groups",
                "set `groups: {sync: true}` for it, and run `heliograph up`",
            )
        ]
    unselected = [*_not_selected(link, group)]
    if unselected:
        return unselected
    causes = [*whole_link(link)]
    if link.source.silent is None and group not in link.source.groups:
        near = nearest_name(group, link.source.groups)
        hint = f"; did you mean {near!r}?" if near else ""
        causes.append(
            Cause(
                "unknown_group",
                f"{link.source.name} has no group {group}, or does not show it{hint}",
                "let it commit on the source, or grant DESCRIBE on it",
            )
        )
    causes += _positions(link, group)
    return causes


def _behind(link: LinkFacts, group: str) -> Iterator[Cause]:
    for cluster in (link.source, link.target):
        lag = cluster.group_lags.get(group)
        if lag is not None and lag.records != 0:
            yield Cause(
                "group_behind",
                f"{group} is {lag_words(*lag)} on {cluster.name}",
                f"`heliograph group describe {group} -c {cluster.name}` shows each partition",
                is_fault=False,
                lag_seconds=lag.seconds,
            )


def _not_selected(link: LinkFacts, group: str) -> Iterator[Cause]:
    included = matching(link.settings.groups, group)
    excluded = matching(link.settings.groups_exclude, group)
    if included is None:
        near = near_miss(link.settings.groups, group)
        yield Cause(
            "group_not_included",
            f"no pattern of `groups` of link {link.name} matches {group}"
            f"{f': {near}' if near else ''}",
            "add it to `groups: {include: ...}`",
        )
    elif excluded is not None:
        yield Cause(
            "group_excluded",
            f"{included!r} includes {group}, and `exclude` has {excluded!r}",
            f"remove {excluded!r} from `groups: {{exclude: ...}}`",
        )


def _positions(link: LinkFacts, group: str) -> Iterator[Cause]:
    groups = (link.worker or {}).get("groups") or {}
    if groups.get("failure"):
        yield Cause(
            "groups_failing", f"groups are not synced: {groups['failure']}", "see the reason"
        )
    positions = [each for each in groups.get("positions") or () if each["group"] == group]
    for each in positions:
        if each["state"] != "synced":
            yield _position_cause(each)
    if link.worker is None or any(not_well(each) for each in positions):
        return
    if not positions:
        yield Cause(
            "no_positions",
            f"{group} has no committed offset in a topic that link {link.name} copies",
            "see `heliograph group describe`, and `heliograph why` for the topic",
        )
    else:
        exact = sum(each["state"] == "synced" for each in positions)
        yield Cause(
            "synced",
            f"{exact} of {len(positions)} positions are exact on the target",
            is_fault=False,
        )


def not_well(position: Mapping[str, Any]) -> bool:
    """Return whether a position is not on the target as it should be."""
    state = STATES.get(position["state"])
    return state is not None and state[2]


def _position_cause(position: Mapping[str, Any]) -> Cause:
    at = f"{position['target_topic']}-{position['partition']}"
    sentence, remedy, is_fault = STATES.get(
        position["state"], (f"its state is {position['state']}", None, True)
    )
    held = f" ({position['held_by']})" if position.get("held_by") else ""
    return Cause(f"position_{position['state']}", f"{at}: {sentence}{held}", remedy, is_fault)
