"""What a query publishes beside its committed offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_global.streaming.lag import DatacenterLag
from spark_global.streaming.progress import Progress, decode_progress, newest, notes_of_topics


@given(
    st.builds(
        Progress,
        at_ms=st.integers(0, 2**53),
        query=st.none() | st.text(),
        batch=st.none() | st.integers(0, 2**53),
        datacenter=st.none() | st.text(),
        records=st.none() | st.integers(0, 2**53),
        seconds=st.none() | st.floats(0, 1e9),
        at_least=st.booleans(),
    )
)
def test_it_is_read_as_it_was_written(progress: Progress) -> None:
    assert decode_progress(progress.encode()) == progress


@pytest.mark.parametrize(
    "metadata", ["", "text", "[1]", "{}", '{"version": 2}', '{"version": 1, "other": 1}', "1"]
)
def test_the_metadata_of_other_groups_is_no_progress(metadata: str) -> None:
    assert decode_progress(metadata) is None


def test_each_topic_has_the_lag_of_its_datacenter() -> None:
    lags = [DatacenterLag(datacenter="JFK", records=3, seconds=1.5, is_at_least=True)]
    names = {"jfk.a": "JFK", "jfk.b": "JFK", "a": None}
    notes = notes_of_topics(lags, names, query="q", batch=4, at_ms=9)
    of_jfk = Progress(
        at_ms=9, query="q", batch=4, datacenter="JFK", records=3, seconds=1.5, at_least=True
    )
    assert {topic: decode_progress(note) for topic, note in notes.items()} == {
        "jfk.a": of_jfk,
        "jfk.b": of_jfk,
        "a": Progress(at_ms=9, query="q", batch=4),
    }


def test_only_what_was_published_last_holds() -> None:
    old = Progress(at_ms=1, datacenter="gone", records=9)
    jfk, ewr = (Progress(at_ms=2, datacenter=name, records=1) for name in ("JFK", "EWR"))
    assert newest([old, jfk, ewr, jfk]) == [ewr, jfk]
    assert newest([]) == []
