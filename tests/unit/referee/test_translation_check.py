"""The check of translated offsets, forward and back."""

from __future__ import annotations

from tests.referee.checks.translation import Answer, Bounds, ForwardCheck, ReverseCheck
from tests.referee.history import EntryKind, Fate, Partition
from tests.unit.referee.histories import FLOW, SOURCE, TARGET, History, content, copy_all, names
from tests.unit.referee.histories import clean as clean_history


def exact(target_offset: int | None, state: str = "exact") -> Answer:
    """What the aggregator answers to a source offset."""
    return Answer(state, FLOW.link, SOURCE.topic, None, TARGET.topic, target_offset)


def back(offset: int | None, state: str = "exact") -> Answer:
    """What it answers to a target offset."""
    return Answer(state, FLOW.link, SOURCE.topic, offset, TARGET.topic, None)


def forward_kinds(history: History, offset: int, answer: Answer) -> list[str]:
    """The kinds of findings about one answer."""
    return [each.kind for each in ForwardCheck(history.truth()).judge(offset, answer).findings]


def reverse_kinds(history: History, offset: int, answer: Answer) -> list[str]:
    """The same about an answer to a target offset."""
    check = ReverseCheck(TARGET, [history.truth()])
    return [each.kind for each in check.judge(offset, answer).findings]


def with_holes() -> History:
    """Source offsets 0, 1, 4, 5 of which 4 and 5 follow two markers; target offsets 0, 1, 5, 6, as
    others wrote three records in between."""
    history = History()
    for identity, skip in (("a.w.0", 0), ("a.w.1", 0), ("a.w.2", 2), ("a.w.3", 0)):
        history.write(identity, skip=skip)
    copy_all(history, ["a.w.0", "a.w.1"])
    for number in range(3):
        history.put(f"b.w.{number}", content(f"b.w.{number}"))
    copy_all(history, ["a.w.2", "a.w.3"])
    return history


def test_bounds_are_the_definition() -> None:
    check = ForwardCheck(with_holes().truth())
    assert [check.bounds(offset) for offset in range(7)] == [
        Bounds(0, 0, False),
        Bounds(1, 1, True),
        Bounds(2, 5, True),
        Bounds(2, 5, True),
        Bounds(2, 5, True),
        Bounds(6, 6, True),
        Bounds(7, 7, True),
    ]


def test_right_answers_pass() -> None:
    history = with_holes()
    for offset, target in enumerate([0, 1, 2, 2, 2, 6, 7]):
        assert forward_kinds(history, offset, exact(target)) == []


def test_an_answer_that_skips_is_noticed() -> None:
    assert forward_kinds(with_holes(), 4, exact(6)) == ["skips"]
    assert forward_kinds(with_holes(), 0, exact(1)) == ["skips"]
    assert forward_kinds(with_holes(), 5, exact(7)) == ["skips"]


def test_an_answer_that_repeats_is_noticed() -> None:
    assert forward_kinds(with_holes(), 4, exact(1)) == ["repeats"]
    assert forward_kinds(with_holes(), 6, exact(6)) == ["repeats"]


def test_an_exact_answer_that_is_not_the_smallest_is_noticed() -> None:
    assert forward_kinds(with_holes(), 4, exact(5)) == ["inexact"]


def test_an_inexact_answer_must_be_safe_and_have_a_reason() -> None:
    history = with_holes()
    assert forward_kinds(history, 4, exact(1, "inexact")) == ["inexact"]
    history.tell(1, 4, kind=EntryKind.COPIED, count=1, target_offset=1, target_to=2)
    assert forward_kinds(history, 4, exact(1, "inexact")) == []
    assert forward_kinds(history, 4, exact(6, "inexact")) == ["skips"]
    assert forward_kinds(history, 4, exact(None, "inexact")) == ["state"]
    assert forward_kinds(history, 5, exact(1, "inexact")) == ["inexact"]


def test_inexact_source_offsets_have_bounds_and_a_reason() -> None:
    history = with_holes()
    answer = back(None, "inexact")._replace(source_from=1, source_to=4)
    assert reverse_kinds(history, 1, answer) == ["reverse inexact"]
    history.tell(1, 4, kind=EntryKind.COPIED, count=1, target_offset=1, target_to=2)
    assert reverse_kinds(history, 1, answer) == []
    assert reverse_kinds(history, 1, answer._replace(source_from=2)) == ["reverse wrong"]
    assert reverse_kinds(history, 1, answer._replace(source_to=1)) == ["reverse wrong"]
    assert reverse_kinds(history, 0, answer) == ["reverse inexact"]


def test_pending_is_right_behind_the_end_and_nowhere_else() -> None:
    history = with_holes()
    assert forward_kinds(history, 7, exact(None, "pending")) == []
    assert forward_kinds(history, 6, exact(None, "pending")) == ["pending"]
    assert forward_kinds(history, 7, exact(7)) == ["beyond"]
    history.target_start = 1
    history.forget_at_target("a.w.0")
    assert forward_kinds(history, 1, exact(None, "pending")) == []
    assert forward_kinds(history, 4, exact(None, "pending")) == ["pending"]


def test_pending_is_right_where_the_mirror_stands_still_and_a_wrong_answer_is_not() -> None:
    history = with_holes()
    history.forget_at_target("a.w.3")
    assert forward_kinds(history, 5, exact(None, "pending")) == ["pending"]
    history.stands_still = True
    assert forward_kinds(history, 5, exact(None, "pending")) == []
    assert forward_kinds(history, 1, exact(3)) == ["skips"]


def test_no_answer_and_another_topic_are_noticed() -> None:
    assert forward_kinds(with_holes(), 1, exact(None)) == ["state"]
    assert forward_kinds(with_holes(), 1, exact(1, "404 not found")) == ["state"]
    other = exact(1)._replace(target_topic="b.orders")
    assert forward_kinds(with_holes(), 1, other) == ["topic"]


def test_a_groups_position_is_an_offset_or_shared() -> None:
    check = ForwardCheck(with_holes().truth())

    def kinds(answer: Answer) -> list[str]:
        return [each.kind for each in check.judge_position(4, answer).findings]

    assert kinds(exact(2)) == []
    assert kinds(exact(6)) == ["answer skips"]
    assert kinds(exact(None, "shared")) == []
    assert kinds(exact(2, "shared")) == []
    assert kinds(exact(2, "shared")._replace(target_topic="b.orders")) == ["answer topic"]
    assert kinds(exact(None, "pending")) == ["answer pending"]


def test_where_compaction_took_copies_any_place_between_the_others_is_right() -> None:
    history = History(source_compacts=True, target_compacts=True)
    for number in range(4):
        history.write(f"a.w.{number}", key=b"k" if number in (1, 2) else None)
    copy_all(history, names(4))
    history.forget_at_target("a.w.1")
    check = ForwardCheck(history.truth())
    assert check.bounds(1) == Bounds(1, 2, True)
    assert check.bounds(2) == Bounds(1, 2, False)
    assert check.bounds(3) == Bounds(3, 3, True)


def test_a_gap_of_the_journal_translates_like_the_next_record() -> None:
    history = History()
    for identity in names(4):
        history.write(identity)
    copy_all(history, names(1))
    history.tell(1, 3)
    history.copy("a.w.3")
    history.delete_before(3)
    for offset in (1, 2, 3):
        assert forward_kinds(history, offset, exact(1)) == []


def test_offsets_of_before_a_re_creation_are_not_taken_for_those_of_now() -> None:
    history = clean_history(3)
    history.recreate()
    history.write("a.n.0")
    history.tell(3, None, reason="recreated")
    history.copy("a.n.0")
    assert forward_kinds(history, 0, exact(3)) == []
    assert forward_kinds(history, 0, exact(0)) == ["repeats"]
    assert forward_kinds(history, 1, exact(1)) == ["repeats"]
    assert reverse_kinds(history, 1, back(1)) == ["reverse exact"]
    assert reverse_kinds(history, 1, back(None, "unmapped")) == []
    assert reverse_kinds(history, 3, back(0)) == []
    assert reverse_kinds(history, 3, back(None, "pending")) == ["reverse pending"]


def test_reverse_answers() -> None:
    history = with_holes()
    assert reverse_kinds(history, 5, back(4)) == []
    assert reverse_kinds(history, 5, back(5)) == ["reverse wrong"]
    assert reverse_kinds(history, 5, back(None, "unmapped")) == ["reverse unmapped"]
    assert reverse_kinds(history, 5, back(None)) == ["reverse state"]
    assert reverse_kinds(history, 5, back(4)._replace(link="b-hub")) == ["reverse link"]


def test_a_record_that_is_no_copy_has_no_source_offset() -> None:
    history = with_holes()
    assert reverse_kinds(history, 3, back(None, "unmapped")) == []
    assert reverse_kinds(history, 3, back(2)) == ["reverse exact"]
    assert reverse_kinds(history, 3, back(None, "pending")) == ["reverse pending"]
    assert reverse_kinds(history, 7, back(None, "pending")) == []


def test_a_copy_that_compaction_took_may_be_known_still() -> None:
    history = History(source_compacts=True, target_compacts=True)
    for number in range(4):
        history.write(f"a.w.{number}", key=b"k" if number in (1, 2) else None)
    copy_all(history, names(4))
    history.forget_at_target("a.w.1")
    assert reverse_kinds(history, 1, back(1)) == []
    assert reverse_kinds(history, 1, back(None, "unmapped")) == []
    assert reverse_kinds(history, 1, back(2)) == ["reverse wrong"]


def test_the_link_that_copied_the_record_answers() -> None:
    ours = with_holes()
    theirs = History()
    for number in range(3):
        theirs.write(f"b.w.{number}")
    theirs.target, theirs.target_end = ours.target, ours.target_end
    truth = theirs.truth()
    other_flow = FLOW._replace(link="b-hub", source=Partition("b", "orders", 0))
    truth.flow = other_flow
    check = ReverseCheck(TARGET, [ours.truth(), truth])
    right = Answer("exact", "b-hub", "orders", 1, TARGET.topic, 3)
    assert check.judge(3, right).findings == []
    assert [each.kind for each in check.judge(3, back(1)).findings] == ["reverse link"]


def test_a_record_whose_offset_nobody_knows_makes_the_place_uncertain() -> None:
    history = clean_history(2)
    history.write("a.w.9", fate=Fate.UNKNOWN, told=False)
    history.forget_at_source("a.w.9")
    history.copy("a.w.9")
    assert ForwardCheck(history.truth()).bounds(2) == Bounds(2, 3, False)
