"""The check of the journal: what is told as lost is lost."""

from __future__ import annotations

from tests.referee.checks.journal import check_journal
from tests.referee.history import EntryKind
from tests.unit.referee.histories import History, clean, content, copy_all, names, write_all


def kinds(history: History) -> list[str]:
    """The kinds of findings about the journal."""
    return [each.kind for each in check_journal(history.truth()).findings]


def overtaken() -> History:
    """Records 2 and 3 of six were deleted before they were copied, and the journal says so."""
    history = History()
    write_all(history, names(6))
    copy_all(history, names(2))
    history.tell(2, 4, count=2)
    copy_all(history, names(6)[4:])
    history.delete_before(4)
    return history


def test_a_true_entry_passes() -> None:
    assert kinds(overtaken()) == []
    assert check_journal(overtaken().truth()).figures["journal entries: lost"] == 1


def test_an_entry_about_a_record_that_is_on_the_target_is_noticed() -> None:
    history = overtaken()
    history.journal[0] = history.journal[0]._replace(source_to=5, records_count=None)
    assert "copied" in kinds(history)


def test_an_entry_about_a_record_that_the_source_still_has_is_noticed() -> None:
    history = overtaken()
    history.delete_before(4)
    history.forget_at_target("a.w.4")
    history.journal[0] = history.journal[0]._replace(source_to=5, records_count=None)
    assert kinds(history) == ["false"]


def test_a_wrong_count_is_noticed() -> None:
    history = overtaken()
    history.journal[0] = history.journal[0]._replace(records_count=3)
    assert kinds(history) == ["miscounted"]


def test_an_entry_at_a_wrong_place_of_the_target_is_noticed() -> None:
    history = overtaken()
    history.journal[0] = history.journal[0]._replace(target_offset=1)
    assert kinds(history) == ["misplaced"]
    history.journal[0] = history.journal[0]._replace(target_offset=2, target_topic="orders")
    assert kinds(history) == ["misplaced"]


def test_an_entry_that_covers_nothing_is_noticed() -> None:
    history = overtaken()
    history.tell(6, 6)
    assert kinds(history) == ["empty"]


def recreated() -> History:
    """Two of four records were copied before the topic was re-created; then two of two."""
    history = History()
    write_all(history, names(4))
    copy_all(history, names(2))
    history.recreate()
    history.tell(2, None, reason="recreated")
    write_all(history, ["a.n.0", "a.n.1"])
    copy_all(history, ["a.n.0", "a.n.1"])
    return history


def test_an_entry_about_a_re_created_topic_is_about_the_one_of_before() -> None:
    assert kinds(recreated()) == []
    too_much = recreated()
    too_much.journal[0] = too_much.journal[0]._replace(source_from=1)
    assert "copied" in kinds(too_much)


def test_a_re_creation_that_was_none_is_noticed() -> None:
    history = recreated()
    history.tell(2, None, reason="recreated")
    assert "false" in kinds(history)


def test_entries_behind_a_re_creation_are_about_the_new_topic() -> None:
    history = recreated()
    write_all(history, ["a.n.2", "a.n.3"])
    history.tell(2, 3)
    history.copy("a.n.3")
    history.delete_before(3)
    assert kinds(history) == []


def copied_and_gone() -> History:
    """Of six records 2 to 4 were copied, the worker was killed, and the source lost 1 to 5."""
    history = History()
    write_all(history, names(6))
    copy_all(history, names(5))
    history.tell(2, 6, kind=EntryKind.COPIED, count=3, target_offset=2, target_to=5)
    history.tell(2, 6, count=1, target_offset=5)
    history.write("a.w.6")
    history.copy("a.w.6")
    history.delete_before(6)
    return history


def test_entries_about_copies_without_a_source_pass() -> None:
    assert kinds(copied_and_gone()) == []


def test_a_wrong_number_of_copies_is_noticed() -> None:
    history = copied_and_gone()
    history.journal[0] = history.journal[0]._replace(copied_count=2)
    assert kinds(history) == ["miscounted"]
    history.target_compacts = True
    assert kinds(history) == []


def test_copies_that_the_source_still_had_are_not_counted() -> None:
    """Compaction took the records of offsets 1 and 3, and not that of 2."""
    history = clean()
    history.source_compacts = True
    history.forget_at_source("a.w.1", "a.w.3")
    history.tell(1, 4, kind=EntryKind.COPIED, count=2, target_offset=1, target_to=4)
    assert kinds(history) == []
    history.journal[0] = history.journal[0]._replace(copied_count=3)
    assert kinds(history) == ["miscounted"]


def test_copies_of_other_source_offsets_are_noticed() -> None:
    history = copied_and_gone()
    history.journal[0] = history.journal[0]._replace(source_from=3)
    assert kinds(history) == ["misplaced", "miscounted"]


def test_what_no_entry_tells_as_copied_is_still_a_false_loss() -> None:
    history = copied_and_gone()
    history.journal[0] = history.journal[0]._replace(target_offset=3, copied_count=2)
    assert kinds(history) == ["copied"]


def test_a_copy_that_is_called_foreign_is_noticed() -> None:
    history = clean(3)
    history.put("b.w.0", content("b.w.0"))
    history.tell(3, 3, kind=EntryKind.FOREIGN, reason="foreign", target_offset=3, target_to=4)
    assert kinds(history) == []
    history.tell(3, 3, kind=EntryKind.FOREIGN, reason="foreign", target_offset=2, target_to=4)
    assert kinds(history) == ["false"]
