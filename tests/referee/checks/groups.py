"""Check positions of consumer groups that links translate. Pure.

A group's position at the source says which records it has read. On the target it must continue
at the first record that it has not read, of any writer: nothing is skipped, and nothing is read
again. In a partition with one origin this is the very next record. In a partition with several
origins it is the documented safe position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.referee.checks.finding import Judgement, Promise
from tests.referee.history import Log

IsRead = Callable[[str], bool | None]
"""Whether a group has read the record of an identity; None where no client can know."""


class GroupPosition(NamedTuple):
    """A position of a group on the target, with what it was translated from."""

    group: str
    committed: str
    """The positions at the sources, for people."""
    position: int | None
    """On the target; None where the group has none."""


def check_group(
    target: Log,
    at: GroupPosition,
    is_read: IsRead,
    *,
    may_repeat: bool = False,
    may_be_missing: bool = False,
) -> Judgement:
    """Compare a position with the records that the group has read.

    `may_repeat` and `may_be_missing` say that docs/operations/groups.md promises no more than that
    nothing is skipped, or no position at all.
    """
    judgement = Judgement()
    judgement.figures["group positions"] += 1
    where = f"group {at.group}, {target.partition}"
    told = f"{at.committed} at the source, {at.position} on the target"

    def find(kind: str, text: str) -> None:
        judgement.find(Promise.GROUPS, kind, where, f"{told}; {text}")

    if at.position is None and may_be_missing:
        judgement.figures["group positions that are pending"] += 1
        return judgement
    if at.position is None:
        find("missing", "the group has no position on the target")
        return judgement
    if at.position > target.end_offset:
        find("beyond", f"the target ends at {target.end_offset}")
    verdicts = [(record, is_read(record.identity or "")) for record in target.records]
    judgement.figures["group records not known as read or unread"] += sum(
        read is None for _, read in verdicts
    )
    skipped = [record for record, read in verdicts if read is False and record.offset < at.position]
    if skipped:
        first = skipped[0]
        find(
            "skips",
            f"{len(skipped)} records that it has not read, the first {first.identity} at"
            f" {first.offset}",
        )
        return judgement
    repeated = []
    for record, read in verdicts:
        if record.offset < at.position:
            continue
        if not read:
            break  # unread, or nobody can know: what lies behind is read again rightly
        repeated.append(record)
    if repeated and may_repeat:
        judgement.figures["group positions that are safe and repeat"] += 1
    elif repeated:
        first = repeated[0]
        find(
            "repeats",
            f"{len(repeated)} records that it has read, before the first that it has not; the first"
            f" is {first.identity} at {first.offset}",
        )
    return judgement
