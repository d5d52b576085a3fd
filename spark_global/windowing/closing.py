"""Which windows a batch closes, and which records are late. Pure.

A batch has counted records, and for each datacenter the time through which it is complete at the
end of the batch. So the records of a batch count before its times do. A datacenter is a member
from the first batch that names it, and stays one.

Guarantees: the records of all rows that are final, and of windows that are still open, are together
all records. A window is closed once. Records that come after that are rows with `is_late`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from spark_global.kept.said import has_more_links

ALL: Final = ""
"""Name for all datacenters together, and for records whose origin is unknown."""


class WindowKind(StrEnum):
    """Whom a window waits for."""

    STRICT = "strict_windows"
    """Every datacenter; one row per window."""
    FAST = "fast_windows"
    """Nobody: each row replaces the one before it, until the window is complete."""
    DATACENTER = "datacenter_windows"
    """The datacenter itself; one row per window and datacenter."""


class Span(NamedTuple):
    """A window of record time, milliseconds since 1970."""

    start_ms: int
    end_ms: int


class Count(NamedTuple):
    """What a window has of one datacenter."""

    records: int
    value_bytes: int

    def plus(self, other: Count) -> Count:
        return Count(self.records + other.records, self.value_bytes + other.value_bytes)


NOTHING: Final = Count(0, 0)


class Counted(NamedTuple):
    """What a batch adds to one window of one datacenter."""

    span: Span
    datacenter: str
    """`ALL` if the origin of the records is unknown."""
    added: Count


class Complete(NamedTuple):
    """Until when the batches so far have every record of a datacenter; milliseconds, or None."""

    through_ms: int | None
    proved_ms: int | None
    """The same, and no later leader epoch can withdraw it."""
    gaps: int = 0
    """Entries of the journals of its links: records that were left out."""
    links: tuple[str, ...] = ()
    """The links of the datacenter that this is about; empty if that is unknown."""
    formerly: tuple[str, ...] = ()
    """Its names before. A link that joins a running query has its alias until the next run."""


UNKNOWN: Final = Complete(None, None)


class WindowRow(NamedTuple):
    """A row to write."""

    start_ms: int
    datacenters: list[str]
    """Those with records, sorted; without those of unknown origin."""
    records: int
    value_bytes: int
    missing: list[str]
    """Members that are not complete."""
    is_late: bool
    """The records came after the window was closed; this row has only them."""
    with_gaps: list[str]
    """Datacenters that the row is about whose mirrors left records out, whenever that was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowState:
    """What is known after a batch."""

    opened: Mapping[Span, Mapping[str, Count]] = field(default_factory=dict)
    """Windows that are not closed, by datacenter."""
    complete: Mapping[str, Complete] = field(default_factory=dict)
    """By member."""
    closed_end_ms: Mapping[str, int] = field(default_factory=dict)
    """By datacenter, and for `ALL`: windows that end by then are closed. It never goes back, also
    if the next batch waits longer."""


class Closing(NamedTuple):
    """How windows are closed."""

    kind: WindowKind
    lateness_ms: int
    """How long after the end of its window a record may be committed."""


def close_windows(
    state: WindowState,
    counted: Iterable[Counted],
    complete: Mapping[str, Complete],
    how: Closing,
) -> tuple[WindowState, list[WindowRow]]:
    """Return the state after a batch, and the rows to write.

    `complete` names every datacenter that the batch knows, `UNKNOWN` without news.
    """
    state = _renamed(state, former_names(complete))
    opened = {span: dict(counts) for span, counts in state.opened.items()}
    late: dict[Span, dict[str, Count]] = {}
    touched: set[Span] = set()
    members = dict(state.complete)
    for each in counted:
        is_late = is_closed(state, each, how)
        counts = (late if is_late else opened).setdefault(each.span, {})
        counts[each.datacenter] = counts.get(each.datacenter, NOTHING).plus(each.added)
        if not is_late:
            touched.add(each.span)
        if each.datacenter != ALL:
            members.setdefault(each.datacenter, UNKNOWN)
    for name, news in complete.items():
        members[name] = _newer(members.get(name, UNKNOWN), news)
    after = WindowState(
        opened=opened, complete=members, closed_end_ms=_closed(state.closed_end_ms, members, how)
    )
    rows = [
        _row(span, counts, how, members, is_late=True)
        for span, each in sorted(late.items())
        for counts in _by_row(each, how)
    ]
    has_same_gaps = _with_gaps(members) == _with_gaps(state.complete)
    for span in sorted(opened):
        if how.kind is WindowKind.FAST:
            missing = _missing(members, span, how)
            if missing is None:
                continue  # records of unknown origin, before the first datacenter is known
            # A window that records or a datacenter's completeness have changed.
            is_as_before = missing == _missing(state.complete, span, how) and has_same_gaps
            if span in touched or not is_as_before:
                rows.append(_row(span, opened[span], how, members, missing))
            if not missing:
                del opened[span]
            continue
        for counts in _by_row(opened[span], how):
            whose = _whose(next(iter(counts)), how)
            if span.end_ms <= after.closed_end_ms.get(whose, _BEFORE_ALL):
                rows.append(_row(span, counts, how, members))
                for name in counts:
                    del opened[span][name]
        if not opened[span]:
            del opened[span]
    return after, rows


def former_names(complete: Mapping[str, Complete]) -> dict[str, str]:
    """Return the names of today by those of before."""
    return {former: name for name, each in complete.items() for former in each.formerly}


def _renamed(state: WindowState, names: Mapping[str, str]) -> WindowState:
    if not names.keys() & {*state.complete, *state.closed_end_ms}:
        return state
    opened: dict[Span, dict[str, Count]] = {}
    for span, counts in state.opened.items():
        found = opened.setdefault(span, {})
        for name, count in counts.items():
            now = names.get(name, name)
            found[now] = found.get(now, NOTHING).plus(count)
    complete: dict[str, Complete] = {}
    for name, each in state.complete.items():
        now = names.get(name, name)
        complete[now] = _least(complete[now], each) if now in complete else each
    closed: dict[str, int] = {}
    for name, end_ms in state.closed_end_ms.items():
        now = names.get(name, name)
        closed[now] = min(end_ms, closed.get(now, end_ms))
    return WindowState(opened=opened, complete=complete, closed_end_ms=closed)


def is_closed(state: WindowState, counted: Counted, how: Closing) -> bool:
    """Return whether the window was closed when the records came."""
    closed = state.closed_end_ms.get(_whose(counted.datacenter, how), _BEFORE_ALL)
    return counted.span.end_ms <= closed


_BEFORE_ALL: Final = -(2**63)


def _whose(datacenter: str, how: Closing) -> str:
    """Return who closes a window for records of a datacenter."""
    return datacenter if how.kind is WindowKind.DATACENTER else ALL


def _by_row(counts: Mapping[str, Count], how: Closing) -> list[dict[str, Count]]:
    """Return what belongs into one row each."""
    if how.kind is WindowKind.DATACENTER:
        return [{name: count} for name, count in sorted(counts.items())]
    return [dict(counts)]


def _row(
    span: Span,
    counts: Mapping[str, Count],
    how: Closing,
    members: Mapping[str, Complete],
    missing: Iterable[str] = (),
    *,
    is_late: bool = False,
) -> WindowRow:
    datacenters = sorted(name for name in counts if name != ALL)
    is_of_all = how.kind is not WindowKind.DATACENTER
    return WindowRow(
        start_ms=span.start_ms,
        datacenters=datacenters,
        records=sum(each.records for each in counts.values()),
        value_bytes=sum(each.value_bytes for each in counts.values()),
        missing=sorted(missing),
        is_late=is_late,
        with_gaps=[each for each in _with_gaps(members) if is_of_all or each in datacenters],
    )


def _missing(members: Mapping[str, Complete], span: Span, how: Closing) -> list[str] | None:
    """Return the members that are not complete; None without members."""
    if not members:
        return None
    end_ms = span.end_ms + how.lateness_ms
    return sorted(
        name
        for name, each in members.items()
        if each.through_ms is None or each.through_ms < end_ms
    )


def _with_gaps(members: Mapping[str, Complete]) -> list[str]:
    return sorted(name for name, each in members.items() if each.gaps)


def _newer(before: Complete, news: Complete) -> Complete:
    """Return what holds after news: what is proved stays, the rest may be withdrawn.

    A gap stays one, also if another worker says so no more. What was proved without a link that has
    joined since is not proved of the datacenter.
    """
    proved = [each for each in (before.proved_ms, news.proved_ms) if each is not None]
    through = [each for each in (news.through_ms, *proved) if each is not None]
    gaps = max(before.gaps, news.gaps)
    if has_more_links(before.links, news.links):
        return Complete(news.through_ms, news.proved_ms, gaps, news.links)
    links = news.links or before.links
    return Complete(max(through, default=None), max(proved, default=None), gaps, links)


def _least(one: Complete, other: Complete) -> Complete:
    """Return what holds of two links that are one datacenter by now."""
    through, proved = (
        None if None in pair else min(ms for ms in pair if ms is not None)
        for pair in zip(one[:2], other[:2], strict=True)
    )
    links = tuple(sorted({*one.links, *other.links}))
    return Complete(through, proved, max(one.gaps, other.gaps), links)


def _closed(
    before: Mapping[str, int], members: Mapping[str, Complete], how: Closing
) -> dict[str, int]:
    found = {
        name: each.through_ms - how.lateness_ms
        for name, each in members.items()
        if each.through_ms is not None
    }
    if found and len(found) == len(members):
        found[ALL] = min(found.values())
    return {name: max(before.get(name, _BEFORE_ALL), ms) for name, ms in found.items()} | {
        name: ms for name, ms in before.items() if name not in found
    }
