"""The book of what producers were told."""

from __future__ import annotations

import pytest

from tests.referee.history import Fate, Partition
from tests.referee.ledger import Ledger
from tests.unit.referee.histories import content

AT = Partition("a", "orders", 0)


def test_delivery_reports_settle_records() -> None:
    ledger = Ledger()
    for identity in ("told", "placeless", "lost", "waiting"):
        ledger.send(identity, AT, content(identity))
    ledger.acknowledge("told", 7)
    ledger.acknowledge("placeless", -1)
    ledger.lose_track("lost")
    written = ledger.written()
    assert {name: (each.fate, each.offset) for name, each in written.items()} == {
        "told": (Fate.READABLE, 7),
        "placeless": (Fate.READABLE, None),
        "lost": (Fate.UNKNOWN, None),
        "waiting": (Fate.UNKNOWN, None),
    }
    assert ledger.unsettled("a", "orders") == 1


@pytest.mark.parametrize(
    ("outcome", "fate"),
    [
        (Fate.READABLE, Fate.READABLE),
        (Fate.NEVER, Fate.NEVER),
        (Fate.UNKNOWN, Fate.UNKNOWN),
        (None, Fate.UNKNOWN),
    ],
)
def test_a_transaction_decides_about_its_records(outcome: Fate | None, fate: Fate) -> None:
    ledger = Ledger()
    number = ledger.begin_transaction()
    ledger.send("acknowledged", AT, content("acknowledged"), number)
    ledger.acknowledge("acknowledged", 3)
    if outcome is not None:
        ledger.end_transaction(number, outcome)
    assert ledger.written()["acknowledged"].fate is fate


def test_an_abort_settles_a_record_without_an_answer_and_a_commit_does_not() -> None:
    ledger = Ledger()
    aborted, committed = ledger.begin_transaction(), ledger.begin_transaction()
    ledger.send("in aborted", AT, content("x"), aborted)
    ledger.send("in committed", AT, content("y"), committed)
    ledger.end_transaction(aborted, Fate.NEVER)
    ledger.end_transaction(committed, Fate.READABLE)
    written = ledger.written()
    assert written["in aborted"].fate is Fate.NEVER
    assert written["in committed"].fate is Fate.UNKNOWN
    assert ledger.fates() == {Fate.NEVER: 1, Fate.READABLE: 1}


def test_a_new_generation_begins_only_when_nothing_is_under_way() -> None:
    ledger = Ledger()
    ledger.send("old", AT, content("old"))
    with pytest.raises(AssertionError):
        ledger.begin_generation("a", "orders")
    ledger.lose_track("old")
    ledger.begin_generation("a", "orders")
    ledger.send("new", AT, content("new"))
    ledger.send("other", AT._replace(topic="others"), content("other"))
    generations = {name: each.generation for name, each in ledger.written().items()}
    assert generations == {"old": 0, "new": 1, "other": 0}
    assert (ledger.generation("a", "orders"), ledger.generation("a", "others")) == (1, 0)


def test_what_a_producer_did_not_take_was_never_sent() -> None:
    ledger = Ledger()
    ledger.send("refused", AT, content("refused"))
    ledger.take_back("refused")
    assert ledger.written() == {}
    assert ledger.unsettled("a", "orders") == 0
