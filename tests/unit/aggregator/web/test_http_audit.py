"""The audit over HTTP: from memory, per link, topic and partition, on the page and in metrics."""

from __future__ import annotations

import re

from local_cluster.records.batch import Record
from mirror_maker.formats.verdicts import (
    AuditorState,
    Verdict,
    auditor_record,
    finding_record,
    progress_record,
)
from tests.unit.aggregator.audit.audits import FLOW, complete, finding, progress
from tests.unit.aggregator.http_world import World


def publish(world: World, *, is_lost: bool = False) -> None:
    """All 50 copies of flights-0 are complete, or the last ten are lost."""
    bucket = {Verdict.COMPLETE: complete(0, 100, 50)}
    records = [auditor_record(AuditorState(worker_id="w", at_ms=1, cpu_share=0.0, failure=None))]
    if is_lost:
        bucket = {Verdict.COMPLETE: complete(0, 100, 40), Verdict.LOST: complete(40, 140, 10)}
        records.append(finding_record(FLOW, finding(Verdict.LOST, 140, 150)))
    records.append(progress_record(FLOW, progress(150, {0: bucket})))
    topic = world.aggregate.audits.verdicts("jfk-nyc")
    topic.begin()
    for key, value in records:
        topic.apply(Record(0, 0, key, value))
    topic.note_read(len(records), len(records), 50.0)


async def test_all_links_at_once(world: World) -> None:
    publish(world)
    document = await world.get("/api/v1/audit")
    assert document["bucket_ms"] == 600_000
    jfk, ewr, lga = document["links"]
    assert (jfk["link"], jfk["datacenter"], jfk["is_well"]) == ("jfk-nyc", "jfk", True)
    assert jfk["records"] == {"COMPLETE": 50}
    assert [link["partitions"] for link in (ewr, lga)] == [[], []]


async def test_a_loss_is_named_with_its_offsets(world: World) -> None:
    publish(world, is_lost=True)
    (link,) = (await world.get("/api/v1/audit?link=jfk-nyc"))["links"]
    assert (link["is_well"], link["findings"]) == (False, 1)
    (part,) = link["partitions"]
    (row,) = part["rows"]
    assert (row["verdict"], row["records"]) == ("LOST", 10)
    assert (row["source_from"], row["source_to"]) == (40, 50)
    assert (row["target_from"], row["target_to"]) == (140, 150)
    (link,) = (await world.get("/api/v1/audit?link=jfk-nyc&topic=flights&partition=0"))["links"]
    assert [row["verdict"] for row in link["partitions"][0]["rows"]] == ["COMPLETE", "LOST"]


async def test_since_a_time(world: World) -> None:
    publish(world, is_lost=True)
    path = "/api/v1/audit?link=jfk-nyc&topic=flights&since_ms=600000"
    (link,) = (await world.get(path))["links"]
    assert link["partitions"][0]["rows"] == []
    assert link["is_well"] is True


async def test_refusals(world: World) -> None:
    assert (await world.get("/api/v1/audit?link=jfk-ny", 404))["did_you_mean"] == "jfk-nyc"
    missing = await world.get("/api/v1/audit?link=jfk-nyc&topic=flight", 404)
    assert missing["did_you_mean"] == "flights"
    assert (await world.get("/api/v1/audit?since_ms=x", 400))["parameter"] == "since_ms"


async def test_what_is_not_readable_is_said(world: World) -> None:
    world.aggregate.audits.verdicts("jfk-nyc").set_failed("verdicts version 9")
    (link,) = (await world.get("/api/v1/audit?link=jfk-nyc"))["links"]
    assert (link["is_well"], link["problem"]) == (False, "verdicts version 9")


async def test_metrics_and_page(world: World) -> None:
    publish(world, is_lost=True)
    async with world.client.get("/metrics") as response:
        text = await response.text()
    labels = r'datacenter="jfk",link="jfk-nyc"'
    for expected in (
        rf'heliograph_audit_records\{{{labels},verdict="COMPLETE"\}} 40.0',
        rf'heliograph_audit_records\{{{labels},verdict="LOST"\}} 10.0',
        rf'heliograph_audit_findings\{{{labels},verdict="LOST"\}} 1.0',
        rf'heliograph_audit_findings\{{{labels},verdict="FOREIGN"\}} 0.0',
        rf"heliograph_audit_age_seconds\{{{labels}\}} 0.0",
    ):
        assert re.search(expected, text), (expected, text)
    async with world.client.get("/") as response:
        page = await response.text()
    assert "LOST at jfk.flights-0, offset 140: the target has nothing at that offset" in page
