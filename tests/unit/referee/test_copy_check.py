"""The check of the copy passes clean histories, and notices each planted fault."""

from __future__ import annotations

import pytest

from tests.referee.checks.copy import check_copy, foreign_faults
from tests.referee.checks.source import check_source
from tests.referee.history import EntryKind, Fate, Partition, Written
from tests.unit.referee.histories import (
    SOURCE,
    TARGET,
    History,
    alter,
    clean,
    content,
    copy_all,
    names,
    write_all,
)


def kinds(history: History) -> list[str]:
    """The kinds of findings about the copy."""
    return [each.kind for each in check_copy(history.truth()).findings]


def test_a_clean_copy_passes() -> None:
    history = clean()
    assert kinds(history) == []
    assert check_source(history.truth()).findings == []
    assert check_copy(history.truth()).figures["records compared"] == 6


def test_a_lost_record_is_noticed() -> None:
    history = clean()
    history.forget_at_target("a.w.3")
    found = check_copy(history.truth()).findings
    assert [each.kind for each in found] == ["lost"]
    assert "a.w.3 was at source offset 3" in found[0].text


def test_a_lost_record_that_the_source_has_deleted_since_is_noticed() -> None:
    history = clean()
    history.forget_at_target("a.w.3")
    history.delete_before(5)
    assert kinds(history) == ["lost"]


def test_a_doubled_record_is_noticed() -> None:
    history = clean()
    history.copy("a.w.2")
    assert kinds(history) == ["doubled"]


def test_swapped_records_are_noticed() -> None:
    history = History()
    write_all(history, names(4))
    copy_all(history, ["a.w.0", "a.w.2", "a.w.1", "a.w.3"])
    assert kinds(history) == ["swapped"]


@pytest.mark.parametrize(
    "change",
    [{"key": b"other"}, {"value": b"a.w.2|other"}, {"headers": ()}, {"timestamp_ms": 1_001}],
)
def test_an_altered_record_is_noticed(change: dict[str, object]) -> None:
    history = clean()
    history.target = alter(history.target, 2, **change)
    assert kinds(history) == ["altered"]


def test_a_null_value_is_not_an_empty_one() -> None:
    history = History()
    history.write("a.w.0", tombstone=True)
    history.put("a.w.0", history.written[0].content._replace(value=b""))
    assert kinds(history) == ["altered"]


def test_an_aborted_record_on_the_target_is_noticed() -> None:
    history = clean(2)
    history.write("a.w.9", fate=Fate.NEVER)
    assert kinds(history) == []
    history.copy("a.w.9")
    assert kinds(history) == ["aborted"]


def test_a_record_of_unknown_outcome_may_be_there_or_not() -> None:
    history = clean(2)
    history.written.append(
        Written("a.w.9", SOURCE, 0, content("a.w.9"), Fate.UNKNOWN, None),
    )
    assert kinds(history) == []
    history.put("a.w.9", content("a.w.9"))
    assert kinds(history) == []


def test_a_record_of_unknown_outcome_that_the_source_has_must_be_copied() -> None:
    history = clean(2)
    history.write("a.w.9", fate=Fate.UNKNOWN, told=False)
    assert kinds(history) == ["lost"]


def test_what_was_written_twice_is_copied_twice_and_no_more() -> None:
    history = clean(2)
    twice = history.source[0]._replace(offset=2)
    history.source.append(twice)
    history.source_end = 3
    assert kinds(history) == ["lost"]
    history.copy("a.w.0")
    assert kinds(history) == []
    history.copy("a.w.0")
    assert kinds(history) == ["doubled"]


def test_a_loss_that_the_journal_tells_is_none() -> None:
    history = History()
    write_all(history, names(6))
    copy_all(history, names(2))
    history.tell(2, 4)
    copy_all(history, names(6)[4:])
    history.delete_before(4)
    assert kinds(history) == []
    assert check_copy(history.truth()).figures["not copied: told as lost"] == 2


def test_a_loss_beside_what_the_journal_tells_is_noticed() -> None:
    history = History()
    write_all(history, names(6))
    copy_all(history, names(2))
    history.tell(2, 4)
    copy_all(history, names(6)[5:])
    history.delete_before(5)
    assert kinds(history) == ["lost"]


def test_records_of_before_a_re_creation_need_a_journal_entry_of_before_it() -> None:
    history = History()
    write_all(history, names(4))
    copy_all(history, names(2))
    history.recreate()
    write_all(history, ["a.n.0", "a.n.1"])
    copy_all(history, ["a.n.0", "a.n.1"])
    assert kinds(history) == ["lost", "lost"]
    history.tell(2, None, reason="recreated", target_offset=2)
    assert kinds(history) == []
    history.forget_at_target("a.n.1")
    assert kinds(history) == ["lost"], "the entry says nothing about the new topic"


def test_a_re_created_partition_to_which_nobody_wrote_is_empty() -> None:
    history = clean(2)
    history.recreate()
    history.tell(2, None, reason="recreated")
    assert check_source(history.truth()).findings == []
    assert kinds(history) == []


def compacted() -> History:
    """Key k: value, tombstone; key m: two values; key n: value, then tombstone."""
    history = History(source_compacts=True)
    for identity, key, tombstone in (
        ("a.w.0", b"k", False),
        ("a.w.1", b"m", False),
        ("a.w.2", b"k", True),
        ("a.w.3", b"m", False),
        ("a.w.4", b"n", False),
        ("a.w.5", b"n", True),
    ):
        history.write(identity, key=key, tombstone=tombstone)
    return history


def test_what_compaction_took_from_the_source_need_not_be_copied() -> None:
    history = compacted()
    copy_all(history, ["a.w.3", "a.w.4", "a.w.5"])
    history.forget_at_source("a.w.0", "a.w.1", "a.w.2")
    assert kinds(history) == []
    assert check_source(history.truth()).findings == []


def test_the_last_value_of_a_key_is_never_excused_by_compaction() -> None:
    history = compacted()
    history.target_compacts = True
    copy_all(history, ["a.w.0", "a.w.1", "a.w.2", "a.w.4", "a.w.5"])
    history.forget_at_source("a.w.1")
    assert kinds(history) == ["lost"]
    history.forget_at_source("a.w.3")
    assert kinds(history) == ["lost"]
    assert [each.kind for each in check_source(history.truth()).findings] == ["lost"]


def test_where_the_copy_keeps_everything_only_the_source_excuses() -> None:
    history = compacted()
    copy_all(history, ["a.w.1", "a.w.2", "a.w.3", "a.w.4", "a.w.5"])
    assert kinds(history) == ["lost"]
    history.target_compacts = True
    assert kinds(history) == []


def test_a_lost_tombstone_is_noticed_by_the_value_that_it_leaves() -> None:
    history = compacted()
    history.target_compacts = True
    copy_all(history, ["a.w.3", "a.w.4"])
    assert kinds(history) == ["lost"], "a.w.4 is there, so nothing cleaned a.w.5 away"
    history.forget_at_target("a.w.4")
    assert kinds(history) == []


def test_only_the_beginning_of_a_copy_may_be_trimmed() -> None:
    history = clean()
    history.forget_at_target("a.w.0", "a.w.1")
    assert kinds(history) == ["lost", "lost"]
    history.target_start = 2
    assert kinds(history) == []
    history.forget_at_target("a.w.4")
    assert kinds(history) == ["lost"]


def test_only_the_end_may_be_missing_where_the_mirror_says_that_it_stands_still() -> None:
    history = clean()
    history.forget_at_target("a.w.4", "a.w.5")
    assert kinds(history) == ["lost", "lost"]
    history.stands_still = True
    assert kinds(history) == []
    history.forget_at_target("a.w.2")
    assert kinds(history) == ["lost"]


def test_a_record_that_nobody_produced_is_noticed() -> None:
    history = clean(2)
    born = {each.identity: each for each in history.written}
    assert list(foreign_faults(history.target_log(), born, {SOURCE})) == []
    history.put(None, content("strange"))
    history.put("a.w.77", content("a.w.77"))
    found = list(foreign_faults(history.target_log(), born, {SOURCE}))
    assert [each.kind for each in found] == ["foreign", "foreign"]


def test_a_record_of_another_partition_is_noticed() -> None:
    history = clean(2)
    elsewhere = SOURCE._replace(number=1)
    born = {each.identity: each for each in history.written}
    born["a.w.1"] = born["a.w.1"]._replace(partition=elsewhere)
    found = list(foreign_faults(history.target_log(), born, {SOURCE, TARGET}))
    assert [each.kind for each in found] == ["foreign"]
    assert list(foreign_faults(history.target_log(), born, {SOURCE, elsewhere})) == []


def test_a_source_that_loses_or_moves_what_it_acknowledged_is_noticed() -> None:
    history = clean()
    history.forget_at_source("a.w.4")
    assert [each.kind for each in check_source(history.truth()).findings] == ["lost"]
    moved = clean()
    moved.written[1] = moved.written[1]._replace(offset=5)
    assert "moved" in [each.kind for each in check_source(moved.truth()).findings]
    late = clean(1)
    late.recreate()
    late.write("a.n.0")
    late.source.append(late.source[0]._replace(offset=1, identity="a.w.0"))
    assert "foreign" in [each.kind for each in check_source(late.truth()).findings]


def test_only_a_producer_that_gives_up_may_write_twice() -> None:
    history = clean(1)
    history.source.append(history.source[0]._replace(offset=1))
    assert [each.kind for each in check_source(history.truth()).findings] == ["doubled"]
    assert check_source(history.truth(), lambda identity: True).findings == []


def test_partitions_are_shown_with_their_cluster() -> None:
    assert str(Partition("a", "orders", 3)) == "a/orders-3"


def test_a_foreign_record_that_the_journal_tells_is_accepted_and_no_other() -> None:
    history = clean()
    history.put(None, content("x"))
    history.put(None, content("y"))
    history.tell(6, 6, target_offset=6, target_to=7, kind=EntryKind.FOREIGN)
    born = {each.identity: each for each in history.written}
    found = list(foreign_faults(history.target_log(), born, {SOURCE}, history.journal))
    assert [each.target_offset for each in found] == [7]
