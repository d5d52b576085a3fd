"""How far a group, a link or a topic is behind, in what `why` says."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from tests.unit.topology.why.test_planted_faults import (
    FLOW,
    SETTINGS,
    WORKER,
    answer,
    side,
    worker,
)
from topology.why.command import answer_lines, answer_of, why_document
from topology.why.facts import GroupLag, LinkFacts


class Behind(NamedTuple):
    """What is behind, the question, and the cause that says so."""

    subject: str
    """`topic NAME`, `group NAME` or `link`."""
    link: LinkFacts
    code: str
    sentence: str
    seconds: float | None


def group_lag(side_name: str, records: int | None, seconds: float | None) -> LinkFacts:
    return side(side_name, group_lags={"billing": GroupLag(records, seconds)})


def two_flows(*lags: tuple[int | None, float | None]) -> LinkFacts:
    return worker(
        flows=[
            {**FLOW, "partition": index, "lag_records": records, "lag_seconds": seconds}
            for index, (records, seconds) in enumerate(lags)
        ]
    )


THROTTLED = {**WORKER["controls"], "source_bytes_per_second": 9}
GROUP, LINK, TOPIC = "group billing", "link", "topic orders"
LAGS: dict[str, Behind] = {
    "a group at the source": Behind(
        GROUP,
        group_lag("source", 7, 12.4),
        "group_behind",
        "billing is 7 records, 12 s behind on dc1",
        12.4,
    ),
    "a group on the target": Behind(
        GROUP,
        group_lag("target", 2, 90_000.0),
        "group_behind",
        "billing is 2 records, 90000 s behind on all",
        90_000.0,
    ),
    "a group whose time is unknown": Behind(
        GROUP,
        group_lag("source", 7, None),
        "group_behind",
        "billing is 7 records behind on dc1",
        None,
    ),
    "a group whose lag is unknown": Behind(
        GROUP,
        group_lag("source", None, None),
        "group_behind",
        "billing is an unknown number of records behind on dc1",
        None,
    ),
    "a group that is not synced": Behind(
        GROUP,
        replace(group_lag("source", 7, 12.4), settings=replace(SETTINGS, sync_group_offsets=False)),
        "group_behind",
        "billing is 7 records, 12 s behind on dc1",
        12.4,
    ),
    "a throttled link": Behind(
        LINK,
        worker(lag_records=50, lag_seconds=61.7, controls=THROTTLED),
        "throttled",
        "link dc1-all is 50 records, 62 s behind, and throttled to 9 bytes per second at the"
        " source",
        61.7,
    ),
    "a link that copies": Behind(
        LINK,
        worker(lag_records=50, lag_seconds=3.0),
        "catching_up",
        "link dc1-all is 50 records, 3 s behind, and copies",
        3.0,
    ),
    "a link whose time is unknown": Behind(
        LINK,
        worker(lag_records=50, lag_seconds=None),
        "catching_up",
        "link dc1-all is 50 records behind, and copies",
        None,
    ),
    "a topic, by its latest partition": Behind(
        TOPIC,
        two_flows((3, 4.0), (0, 0.0)),
        "copied",
        "orders is copied into dc1.orders, 3 records, 4 s behind",
        4.0,
    ),
    "a topic with a partition that is unknown": Behind(
        TOPIC,
        two_flows((3, 4.0), (None, None)),
        "copied",
        "orders is copied into dc1.orders, an unknown number of records behind",
        None,
    ),
}


@pytest.mark.parametrize("name", LAGS)
def test_a_lag_has_its_seconds_for_people_and_programs(name: str) -> None:
    behind = LAGS[name]
    (cause,) = [each for each in answer(behind.subject, behind.link) if each.code == behind.code]
    assert (cause.sentence, cause.lag_seconds) == (behind.sentence, behind.seconds)
    kind, _, subject = behind.subject.partition(" ")
    document = why_document(subject, kind, [answer_of("dc1-all", [cause])])
    assert document["answers"][0]["causes"][0]["lag_seconds"] == behind.seconds
    assert f"  {behind.sentence}" in answer_lines(document)
    assert cause.is_fault == (behind.code == "throttled"), "a lag alone is no fault"


@pytest.mark.parametrize("side_name", ["source", "target"])
def test_a_group_that_has_read_everything_is_not_behind(side_name: str) -> None:
    found = answer(GROUP, group_lag(side_name, 0, 0.0))
    assert [each.code for each in found] == ["synced"]
