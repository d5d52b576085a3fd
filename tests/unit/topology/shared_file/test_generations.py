"""How a host's file stands to the stored generations."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from topology.shared_file.canonical import digest_of
from topology.shared_file.generations import (
    FORMER_MAX,
    Generation,
    NotAGeneration,
    Seen,
    decide,
    decode_generation,
    decode_seen,
    encode_generation,
    encode_seen,
)

FIRST = Generation(number=1, text="one", host="a", written_at="t1")
SECOND = Generation(number=2, text="two", host="b", written_at="t2", former=(FIRST.digest,))
RIVAL = replace(SECOND, text="other", host="c")
SAW_FIRST = Seen(generation=FIRST)


def test_the_first_file_is_generation_one() -> None:
    decision = decide("one", Seen(), [])
    assert (decision.state, decision.next("one", "a", "t1")) == ("first", FIRST)


@pytest.mark.parametrize("seen", [Seen(), SAW_FIRST, Seen(generation=RIVAL)])
def test_the_newest_text_is_the_same_whatever_was_seen(seen: Seen) -> None:
    assert decide("two", seen, [SECOND]).state == "same"


def test_an_edit_of_the_newest_generation_follows_it() -> None:
    decision = decide("two", SAW_FIRST, [FIRST])
    assert (decision.state, decision.next("two", "b", "t2")) == ("advance", SECOND)


@pytest.mark.parametrize("seen", [SAW_FIRST, Seen()])
def test_an_earlier_generation_is_behind_also_without_a_note(seen: Seen) -> None:
    decision = decide("one", seen, [SECOND])
    assert (decision.state, decision.newest) == ("behind", SECOND)


def test_a_generation_that_is_forgotten_is_behind_by_the_note_alone() -> None:
    late = replace(SECOND, number=FORMER_MAX + 9, former=("x",) * FORMER_MAX)
    assert decide("one", SAW_FIRST, [late]).state == "behind"
    assert decide("one", Seen(), [late]).state == "conflict"


@pytest.mark.parametrize("seen", [SAW_FIRST, Seen(), Seen(generation=RIVAL)])
def test_an_edit_of_another_generation_is_a_conflict(seen: Seen) -> None:
    decision = decide("edited", seen, [SECOND])
    assert (decision.state, decision.newest) == ("conflict", SECOND)


def test_the_same_number_with_another_text_was_not_seen() -> None:
    assert decide("other", Seen(generation=RIVAL), [SECOND]).state == "conflict"


def test_the_operator_may_replace_the_newest_generation_and_no_other() -> None:
    decision = decide("edited", SAW_FIRST, [SECOND], replaces=2)
    assert decision.state == "advance"
    assert decision.next("edited", "a", "t3").former == (SECOND.digest, FIRST.digest)
    assert decide("edited", SAW_FIRST, [SECOND], replaces=1).state == "conflict"


def test_a_host_that_was_killed_between_zookeeper_and_its_note_finds_its_own() -> None:
    killed = Seen(generation=FIRST, claim=SECOND)
    assert decide("two", killed, [SECOND]).state == "same"
    assert decide("edited again", killed, [SECOND]).state == "advance"
    assert decide("edited again", killed, [FIRST]).state == "advance", "it was not written"
    assert decide("edited again", killed, [RIVAL]).state == "conflict", "another one was"


def test_a_host_that_applied_the_file_before_any_zookeeper_answered_has_seen_it() -> None:
    """The first hosts of a deployment: another one writes the generation, when there is one."""
    waited = Seen(applied="one")
    assert decide("one", waited, [FIRST]).state == "same"
    assert decide("edited", waited, [FIRST]).state == "advance"
    assert decide("edited", waited, [SECOND]).state == "conflict", "it was edited elsewhere since"
    assert decode_seen(encode_seen(waited)) == waited


def test_a_note_of_an_earlier_version_has_no_applied_file() -> None:
    document = json.loads(encode_seen(SAW_FIRST))
    del document["applied"]
    assert decode_seen(json.dumps(document)) == SAW_FIRST


def test_a_zookeeper_that_was_silent_is_no_rival() -> None:
    assert decide("two", SAW_FIRST, [FIRST, SECOND]).state == "same"
    again = replace(SECOND, number=1, former=())
    assert decide("two", Seen(), [SECOND, again]).state == "same", "the same text, counted anew"


@pytest.mark.parametrize("text", ["two", "other", "edited"])
def test_edits_in_two_zookeepers_are_a_conflict_for_every_host(text: str) -> None:
    for seen in (SAW_FIRST, Seen(generation=SECOND), Seen(generation=RIVAL)):
        decision = decide(text, seen, [SECOND, RIVAL])
        assert decision.state == "conflict"
        assert decision.newest is not None
        assert decision.rival is not None
        assert {decision.newest.host, decision.rival.host} == {"b", "c"}
    assert decide(text, SAW_FIRST, [SECOND, RIVAL], replaces=2).state == "advance"
    third = replace(SECOND, number=3, text="three", former=(SECOND.digest, FIRST.digest))
    assert decide("three", Seen(), [third, RIVAL]).state == "conflict"


def test_a_zookeeper_that_went_back_gets_the_next_number() -> None:
    decision = decide("edited", Seen(generation=SECOND), [FIRST])
    assert decision.state == "advance"
    assert decision.next("edited", "b", "t3").number == 3
    assert decide("edited", Seen(generation=SECOND), [replace(FIRST, text="x")]).state == "conflict"


def test_what_is_written_is_read_again() -> None:
    assert decode_generation(encode_generation(SECOND)) == SECOND
    for seen in (Seen(), SAW_FIRST, Seen(generation=FIRST, claim=SECOND)):
        assert decode_seen(encode_seen(seen)) == seen
    assert SECOND.former == (digest_of("one"),)


@pytest.mark.parametrize("content", ["", "[]", "{}", "1", '{"version": 2}', "null"])
def test_another_content_is_refused(content: str) -> None:
    with pytest.raises(NotAGeneration):
        decode_generation(content.encode())
    with pytest.raises(NotAGeneration):
        decode_seen(content)
    newer = json.loads(encode_generation(FIRST)) | {"version": 2}
    with pytest.raises(NotAGeneration, match="format 2"):
        decode_generation(json.dumps(newer).encode())
