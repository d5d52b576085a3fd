"""What a table says of completeness, commit after commit."""

from __future__ import annotations

from spark_global.kept.said import Through, complete_text, decode_complete, with_news


def test_what_is_proved_stays_and_a_gap_stays_one() -> None:
    before = {"JFK": Through(10, 7, 2), "LGA": Through(5, None, 0)}
    news = {"JFK": Through(4, None, 0), "EWR": Through(3, None, 1)}
    assert with_news(before, news) == {
        "JFK": Through(7, 7, 2),
        "LGA": Through(5, None, 0),
        "EWR": Through(3, None, 1),
    }


def test_what_is_proved_of_one_link_is_not_proved_of_two() -> None:
    before = {"JFK": Through(20, 20, 1, ("a",))}
    joined = with_news(before, {"JFK": Through(10, 9, 0, ("a", "b"))})
    assert joined == {"JFK": Through(10, 9, 1, ("a", "b"))}
    assert decode_complete(complete_text(joined)) == joined
    # A link that leaves takes nothing back, and older properties name no links.
    assert with_news(joined, {"JFK": Through(8, None, 0, ("a",))})["JFK"] == Through(
        9, 9, 1, ("a",)
    )
    older = {"JFK": Through(20, 20, 0)}
    assert with_news(older, {"JFK": Through(10, 9, 0, ("a",))})["JFK"].through_ms == 20


def test_a_datacenter_with_a_new_name_is_in_a_table_once() -> None:
    before = {"ewr": Through(10, 7, 1), "JFK": Through(9, None, 0)}
    news = {"Newark": Through(12, None, 0, formerly=("ewr", "ewr-nyc"))}
    after = with_news(before, news)
    assert after == {"JFK": Through(9, None, 0), "Newark": Through(12, 7, 1)}
    assert with_news(after, news) == after
    assert decode_complete(complete_text(after)) == after
