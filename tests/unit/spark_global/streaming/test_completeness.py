"""What the positions of a stream say of completeness, run after run."""

from __future__ import annotations

from typing import Any

from spark_global.kept.said import Through
from spark_global.links import MirrorLink
from spark_global.streaming.completeness import with_new_names, with_news


def said(through: int | None, **more: Any) -> dict[str, Any]:
    return {"through": through, "proved": None, "gaps": 0, **more}


def test_a_link_that_joined_under_its_alias_gets_the_name_of_its_datacenter() -> None:
    links = (
        MirrorLink(source="ewr", datacenter="Newark", name="ewr-nyc"),
        MirrorLink(source="jfk", datacenter="Kennedy", name="jfk-nyc"),
    )
    before = {"ewr": said(5), "jfk-nyc": said(7), "other": said(9)}
    found = with_new_names(before, links)
    assert found == {
        "other": said(9),
        "Newark": said(5, formerly=["ewr"]),
        "Kennedy": said(7, formerly=["jfk-nyc"]),
    }
    assert with_new_names(found, links) == found, "the next batch says the same"
    # Two links are one datacenter: it is as complete as the least of them.
    both = {"ewr": said(4), "ewr-nyc": said(6), "Newark": said(5, formerly=["x"])}
    assert with_new_names(both, links) == {"Newark": said(4, formerly=["ewr", "ewr-nyc", "x"])}
    unknown = with_new_names({"ewr": said(None), "Newark": said(5)}, links)
    assert unknown == {"Newark": said(None, formerly=["ewr"])}


def test_a_name_that_a_datacenter_has_now_is_no_former_name() -> None:
    links = (
        MirrorLink(source="a", datacenter="b", name="a-nyc"),
        MirrorLink(source="b", datacenter="a", name="b-nyc"),
    )
    assert with_new_names({"a": said(1), "b": said(2)}, links) == {"a": said(1), "b": said(2)}


def test_a_datacenter_is_unknown_when_a_link_joins_it() -> None:
    before = {"JFK": said(20, links=["a"], formerly=["jfk"]), "LGA": said(7)}
    assert with_news(before, {}, {"JFK": ["a"], "LGA": ["c"], "EWR": ["d"]}) == {
        **before,
        "EWR": said(None),
    }
    joined = with_news(before, {}, {"JFK": ["a", "b"], "LGA": ["c"]})
    assert joined == {
        "JFK": said(None, links=["a", "b"], formerly=["jfk"]),
        "LGA": said(7),
    }
    assert with_news(joined, {}, {"JFK": ["a", "b"], "LGA": ["c"]}) == joined
    news = {"JFK": Through(9, 3, 1, ("a", "b"))}
    assert with_news(joined, news, {"JFK": ["a", "b"]})["JFK"] == {
        "through": 9,
        "proved": 3,
        "gaps": 1,
        "links": ["a", "b"],
        "formerly": ["jfk"],
    }
