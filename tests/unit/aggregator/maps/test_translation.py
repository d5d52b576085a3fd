"""Answers of a link's map: exact if it is published, else pending, never a guess."""

from __future__ import annotations

import uuid

import pytest

from aggregator.maps.followed_topic import TopicState
from aggregator.maps.link_map import LinkMap, MapAnswer, TranslationState
from aggregator.maps.translation import LinkMaps
from local_cluster.records.batch import Record
from mirror_maker.formats import MapFormatError
from mirror_maker.formats.probe import probe_topic_name
from tests.unit.aggregator.fakes import opening_and_block

_EXACT, _PENDING = TranslationState.EXACT, TranslationState.PENDING
_OLD, _NEW = uuid.UUID(int=10), uuid.UUID(int=11)


def _map(*published: list[tuple[bytes, bytes]]) -> LinkMap:
    link_map = LinkMap()
    for offset, (key, value) in enumerate(record for part in published for record in part):
        link_map.apply(Record(offset, 0, key, value))
    return link_map


def _flights(target_topic_id: uuid.UUID = _OLD, target: int = 200) -> list[tuple[bytes, bytes]]:
    # Source offsets 110-119 hold a transaction marker and aborted records, which are not copied;
    # target offsets target+10 to target+14 are someone else's. A reader at 120 stands before them:
    # the smallest offset that splits the copies is meant.
    return opening_and_block(
        "flights",
        2,
        "jfk.flights",
        target_topic_id,
        [(100, target, 10), (120, target + 15, 5)],
        source_next=127,
    )


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, 200),
        (100, 200),
        (109, 209),
        (110, 210),
        (119, 210),
        (120, 210),
        (124, 219),
        (125, 220),
        (127, 220),
        (128, None),
        (10**12, None),
    ],
)
def test_translate(offset: int, expected: int | None) -> None:
    answer = _map(_flights()).translate("flights", 2, offset, {})
    state = _PENDING if expected is None else _EXACT
    assert answer == MapAnswer(state, "jfk.flights", expected)


@pytest.mark.parametrize(
    ("offset", "state", "expected"),
    [
        (200, _EXACT, 100),
        (209, _EXACT, 109),
        (210, TranslationState.UNMAPPED, None),
        (214, TranslationState.UNMAPPED, None),
        (215, _EXACT, 120),
        (219, _EXACT, 124),
        (220, _PENDING, None),
        (199, TranslationState.UNMAPPED, None),
    ],
)
def test_reverse(offset: int, state: TranslationState, expected: int | None) -> None:
    answer = _map(_flights()).reverse("jfk.flights", 2, offset, {})
    assert answer == MapAnswer(state, "flights", expected)


def test_in_a_hole_of_the_map_the_answer_is_safe() -> None:
    """The source lost some of 127..139 after they were copied to 220..226."""
    opening, first = opening_and_block(
        "flights", 2, "jfk.flights", _OLD, [(100, 200, 20)], source_next=127
    )
    _, behind = opening_and_block(
        "flights", 2, "jfk.flights", _OLD, [(140, 227, 5)], source_next=145
    )
    link_map = _map([opening, first, behind])
    inexact = TranslationState.INEXACT
    for offset, state in ((127, _EXACT), (128, inexact), (139, inexact)):
        answer = link_map.translate("flights", 2, offset, {})
        assert answer == MapAnswer(state, "jfk.flights", 220)
    assert link_map.translate("flights", 2, 140, {}) == MapAnswer(_EXACT, "jfk.flights", 227)
    for target, answer in (
        (219, MapAnswer(_EXACT, "flights", 119)),
        (220, MapAnswer(inexact, "flights", None, (127, 140))),
        (226, MapAnswer(inexact, "flights", None, (127, 140))),
        (227, MapAnswer(_EXACT, "flights", 140)),
    ):
        assert link_map.reverse("jfk.flights", 2, target, {}) == answer


def test_unknown_partition_and_topic_are_pending() -> None:
    link_map = _map(_flights())
    assert link_map.translate("flights", 3, 0, {}) == MapAnswer(_PENDING, None, None)
    assert link_map.translate("gates", 2, 0, {}) == MapAnswer(_PENDING, None, None)
    assert link_map.reverse("jfk.flights", 3, 0, {}) == MapAnswer(_PENDING, None, None)
    assert link_map.mirrored_end("gates", 2, {}) is None


def test_offsets_of_a_deleted_copy_are_never_given() -> None:
    link_map = _map(_flights(_OLD))
    assert link_map.translate("flights", 2, 100, {"jfk.flights": _OLD}).offset == 200
    # The topic was re-created, and the link has not opened it yet.
    recreated = {"jfk.flights": _NEW}
    assert link_map.translate("flights", 2, 100, recreated) == MapAnswer(
        _PENDING, "jfk.flights", None
    )
    assert link_map.reverse("jfk.flights", 2, 200, recreated).offset is None
    assert link_map.mirrored_end("flights", 2, recreated) is None

    link_map = _map(_flights(_OLD), _flights(_NEW, target=0))
    assert link_map.translate("flights", 2, 100, recreated).offset == 0
    assert link_map.reverse("jfk.flights", 2, 3, recreated).offset == 103
    # A cluster that names no topic ids cannot tell; the last flow speaks.
    assert link_map.translate("flights", 2, 100, {"jfk.flights": None}).offset == 0


def test_names_and_counts() -> None:
    gates = opening_and_block("gates", 0, "jfk.gates", _OLD, [(0, 0, 1)])
    link_map = _map(_flights(), gates)
    assert list(link_map.topics()) == [("flights", "jfk.flights"), ("gates", "jfk.gates")]
    assert link_map.partitions == 2
    assert link_map.mirrored_end("flights", 2, {}) == 127


def test_a_probe_topic_is_nobodys_topic_and_still_mapped() -> None:
    probe = probe_topic_name("jfk-nyc")
    records = opening_and_block(probe, 0, f"jfk.{probe}", _OLD, [(0, 0, 5)])
    link_map = _map(_flights(), records)
    assert list(link_map.topics()) == [("flights", "jfk.flights")]
    assert link_map.partitions == 1
    assert link_map.translate(probe, 0, 3, {}).offset == 3


def test_maps_of_all_links() -> None:
    maps = LinkMaps({"jfk-nyc": "jfk", "ewr-nyc": "ewr"})
    maps.topic("jfk-nyc").begin()
    maps.topic("jfk-nyc").value = _map(_flights())
    answer = maps.translate("jfk-nyc", "flights", 2, 105)
    assert (answer.link, answer.datacenter, answer.topic) == ("jfk-nyc", "jfk", "flights")
    assert (answer.target_topic, answer.target_offset) == ("jfk.flights", 205)
    back = maps.reverse("jfk-nyc", "jfk.flights", 2, 205)
    assert (back.topic, back.offset, back.target_offset) == ("flights", 105, 205)
    assert maps.translate("ewr-nyc", "flights", 2, 105).target_offset is None
    assert [entry.target_topic for entry in maps.mapped_topics()] == ["jfk.flights"]
    assert maps.mirrored_end("jfk-nyc", "flights", 2) == 127
    assert maps.mirrored_end("ewr-nyc", "flights", 2) is None
    maps.set_target_ids({"jfk.flights": _NEW})
    assert maps.translate("jfk-nyc", "flights", 2, 105).state is _PENDING
    with pytest.raises(KeyError):
        maps.translate("lga-nyc", "flights", 0, 0)


def test_unreadable_records_are_refused() -> None:
    with pytest.raises(MapFormatError):
        LinkMap().apply(Record(0, 0, b"\x07", b"\x07"))
    with pytest.raises(MapFormatError):
        LinkMap().apply(Record(0, 0, None, b""))


def test_lag_of_an_unread_map_is_unknown() -> None:
    maps = LinkMaps({"jfk-nyc": "jfk"})
    assert maps.topic("jfk-nyc").lag_records is None
    maps.topic("jfk-nyc").begin()
    maps.topic("jfk-nyc").note_read(3, 10, 5.0)
    assert maps.topic("jfk-nyc").lag_records == 7
    assert maps.topic("jfk-nyc").state is TopicState.LOADING
