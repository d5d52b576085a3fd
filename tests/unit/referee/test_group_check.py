"""The check of groups' positions notices what skips or repeats."""

from __future__ import annotations

import pytest

from tests.referee.checks.group_reading import may_be_missing, need_only_be_safe, reads
from tests.referee.checks.groups import GroupPosition, IsRead, check_group
from tests.referee.history import EntryKind, Log, Partition
from tests.unit.referee.histories import SOURCE, TARGET, History, clean


def from_b(identity: str, cluster: str) -> bool:
    """Records that were born in b come to every cluster, and no others to any."""
    return identity.startswith("b.")


BORN = {f"{cluster}.w.{number}" for cluster in ("a", "b", "hub") for number in range(4)} | {
    "b.a.w.0",
    "b.a.w.1",
}

READ = {"a.w.0": True, "a.w.1": True, "a.w.2": False, "a.w.3": False}


def kinds(log: Log, position: int | None, is_read: IsRead, **may: bool) -> list[str]:
    """The kinds of findings about a position."""
    at = GroupPosition("readers", "a/orders-0: 2", position)
    found = check_group(log, at, is_read, **may)
    return [each.kind for each in found.findings]


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (2, []),
        (3, ["skips"]),
        (1, ["repeats"]),
        (0, ["repeats"]),
        (None, ["missing"]),
        (5, ["beyond", "skips"]),
    ],
)
def test_a_group_goes_on_with_the_very_next_record(
    position: int | None, expected: list[str]
) -> None:
    assert kinds(clean(4).target_log(), position, READ.get) == expected


def test_offsets_without_records_are_no_matter() -> None:
    history = clean(2)
    history.write("a.w.2")
    history.copy("a.w.2", skip=3)
    for position in (2, 3, 5):
        assert kinds(history.target_log(), position, READ.get) == []
    assert kinds(history.target_log(), 6, READ.get) == ["skips"]


def test_what_nobody_can_know_is_no_finding() -> None:
    unknown: dict[str, bool | None] = {**READ, "a.w.1": None, "a.w.2": None}
    for position in (1, 2, 3):
        assert kinds(clean(4).target_log(), position, unknown.get) == []
    assert kinds(clean(4).target_log(), 4, unknown.get) == ["skips"]
    assert kinds(clean(4).target_log(), 0, unknown.get) == ["repeats"]
    assert kinds(clean(4).target_log(), 0, {**READ, "a.w.0": None}.get) == []


def test_where_a_position_need_only_be_safe_skipping_is_a_finding() -> None:
    assert kinds(clean(4).target_log(), 0, READ.get, may_repeat=True) == []
    assert kinds(clean(4).target_log(), 3, READ.get, may_repeat=True) == ["skips"]


def test_where_a_position_may_be_missing_a_wrong_one_is_a_finding() -> None:
    assert kinds(clean(4).target_log(), None, READ.get, may_be_missing=True) == []
    assert kinds(clean(4).target_log(), 1, READ.get, may_be_missing=True) == ["repeats"]


def test_records_before_a_position_are_read_and_others_are_not() -> None:
    history = clean(4)
    is_read = reads([history.truth()], {SOURCE: 2}, {SOURCE: history.source_log()}, from_b, BORN)
    assert [is_read(f"a.w.{number}") for number in range(4)] == [True, True, False, False]
    assert is_read("hub.w.0") is False, "nothing brings it to the source"
    assert is_read("") is None, "nobody wrote it"


def test_a_record_of_the_target_is_read_where_its_copy_was() -> None:
    history = clean(2)
    history.source.append(history.source[0]._replace(offset=2, identity="b.w.0"))
    logs = {SOURCE: history.source_log()}
    assert reads([history.truth()], {SOURCE: 3}, logs, from_b, BORN)("b.w.0") is True
    assert reads([history.truth()], {SOURCE: 2}, logs, from_b, BORN)("b.w.0") is False
    assert reads([history.truth()], {SOURCE: 3}, logs, from_b, BORN)("b.w.1") is False
    history.source_start = 1
    logs = {SOURCE: history.source_log()}
    is_read = reads([history.truth()], {SOURCE: 3}, logs, from_b, BORN)
    assert is_read("b.w.1") is None, "it may be gone"
    assert is_read("hub.w.1") is False


def test_a_group_that_never_committed_at_a_source_has_read_nothing_of_it() -> None:
    ours, theirs = clean(2), History()
    theirs.written = [each._replace(identity=f"b.{each.identity}") for each in ours.written]
    other = theirs.truth()
    other.flow = other.flow._replace(source=Partition("b", "orders", 0))
    is_read = reads([ours.truth(), other], {SOURCE: 2}, {SOURCE: ours.source_log()}, from_b, BORN)
    assert is_read("a.w.1") is True
    assert is_read("b.a.w.0") is False
    merged = Log(TARGET, 0, 3, (*ours.target, ours.target[0]._replace(offset=2)))
    assert kinds(merged, 0, is_read) == ["repeats"]


def test_positions_need_only_be_safe_where_unread_records_may_be_gone() -> None:
    history, place = clean(4), {SOURCE: 2}
    assert not need_only_be_safe([history.truth()], place, (), is_shared=True)
    assert need_only_be_safe([history.truth()], {}, (), is_shared=True)
    assert not need_only_be_safe([history.truth()], {}, (), is_shared=False)
    history.target_compacts = True
    assert need_only_be_safe([history.truth()], place, (), is_shared=True)
    assert not need_only_be_safe([history.truth()], place, (), is_shared=False)
    history.stands_still = True
    assert need_only_be_safe([history.truth()], place, (), is_shared=False)


def test_positions_need_only_be_safe_in_holes_of_a_map() -> None:
    history = clean(4)
    history.tell(1, 3, kind=EntryKind.COPIED, count=2, target_offset=1, target_to=3)
    truths = [history.truth()]
    assert need_only_be_safe(truths, {SOURCE: 2}, (), is_shared=False)
    assert not need_only_be_safe(truths, {SOURCE: 4}, (), is_shared=False)
    assert not need_only_be_safe(truths, {SOURCE: 4}, {TARGET}, is_shared=False)
    assert need_only_be_safe(truths, {SOURCE: 4}, {SOURCE}, is_shared=True)


def test_positions_may_be_missing_where_retention_took_the_copies() -> None:
    history = clean(4)
    assert not may_be_missing([history.truth()], {SOURCE: 2})
    history.forget_at_target("a.w.0", "a.w.1", "a.w.2")
    history.target_start = 3
    assert may_be_missing([history.truth()], {SOURCE: 2})
    assert not may_be_missing([history.truth()], {SOURCE: 4})
