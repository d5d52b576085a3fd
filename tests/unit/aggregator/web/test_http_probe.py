"""The results of a link's probe, in API, metrics and page."""

from __future__ import annotations

from typing import Any

import pytest

from aggregator.probe.link_probe import take_in
from aggregator.probe.record import ProbeRecord, encode_probe_record
from tests.unit.aggregator.http_world import World

LABELS = '{datacenter="jfk",link="jfk-nyc"}'


def send(world: World, count: int = 1) -> list[ProbeRecord]:
    """Send this many records of jfk's link, all acknowledged."""
    probe = world.aggregate.probes["jfk-nyc"]
    records = []
    for _ in range(count):
        records.append(probe.next_record(world.now * 1000, 1_700_000_000_000))
        probe.ledger.acknowledged(records[-1].sequence)
    return records


def arrive(world: World, record: ProbeRecord, offset: int) -> None:
    probes = world.aggregate.probes
    take_in(
        probes.values(),
        offset,
        world.now * 1000,
        key=record.link.encode(),
        value=encode_probe_record(record),
        headers=(),
        create_time_ms=record.sent_at_ms,
    )


def pass_seconds(world: World, seconds: float) -> None:
    world.now += seconds
    for probe in world.aggregate.probes.values():
        probe.ledger.tick(world.now * 1000)


async def probe_of(world: World) -> dict[str, Any]:
    (jfk,) = (await world.get("/api/v1/probe?link=jfk-nyc"))["links"]
    assert isinstance(jfk, dict)
    return jfk


async def metric_lines(world: World) -> list[str]:
    async with world.client.get("/metrics") as response:
        text = await response.text()
    return [line for line in text.splitlines() if line.startswith("heliograph_probe")]


async def page(world: World) -> str:
    async with world.client.get("/") as response:
        return await response.text()


async def test_a_link_whose_records_arrive(world: World) -> None:
    for offset, record in enumerate(send(world, 4)):
        world.now += 0.25
        arrive(world, record, offset)
    world.now += 1
    jfk = await probe_of(world)
    assert (jfk["state"], jfk["reason"]) == ("ok", None)
    assert (jfk["topic"], jfk["target_topic"]) == (
        "heliograph-probe.jfk-nyc.internal",
        "jfk.heliograph-probe.jfk-nyc.internal",
    )
    figures = ("sent", "received", "lost", "doubled", "out_of_order", "altered", "under_way")
    assert [jfk[figure] for figure in figures] == [4, 4, 0, 0, 0, 0, 0]
    assert (jfk["run_id"], jfk["last_arrival_age_seconds"]) == ("5eed", 1.0)
    latency = jfk["latency_ms"]
    assert (latency["p50"], latency["p99"], latency["last"]) == (500.0, 1_000.0, 1_000.0)
    assert sum(latency["counts"]) == 4
    lines = await metric_lines(world)
    for line in ("received_records_total{} 4.0", "lost_records{} 0.0", "degraded{} 0.0"):
        assert f"heliograph_probe_{line.replace('{}', LABELS)}" in lines
    assert f"heliograph_probe_last_arrival_age_seconds{LABELS} 1.0" in lines
    assert "<td>jfk-nyc</td><td>ok</td><td class=number>4</td>" in await page(world)


async def test_a_link_that_is_not_probed_is_off(world: World) -> None:
    links = (await world.get("/api/v1/probe"))["links"]
    assert [(each["link"], each["state"]) for each in links] == [
        ("jfk-nyc", "starting"),
        ("ewr-nyc", "off"),
        ("lga-nyc", "off"),
    ]
    assert not any("ewr" in line for line in await metric_lines(world))


async def test_before_the_first_arrival_what_is_unknown_is_null(world: World) -> None:
    jfk = await probe_of(world)
    assert (jfk["state"], jfk["last_arrival_age_seconds"]) == ("starting", None)
    assert (jfk["latency_ms"]["p50"], jfk["last_fault_age_seconds"]) == (None, None)
    assert not any("age" in line for line in await metric_lines(world))


async def test_loss_degrades_the_link_for_a_day_and_is_counted_for_ever(world: World) -> None:
    first, lost, last = send(world, 3)
    arrive(world, first, 0)
    arrive(world, last, 1)
    pass_seconds(world, 9)
    assert (await probe_of(world))["state"] == "ok"
    pass_seconds(world, 1)
    jfk = await probe_of(world)
    assert (jfk["state"], jfk["lost"]) == ("degraded", 1)
    assert jfk["reason"] == f"1 record lost (sequence number {lost.sequence})"
    assert jfk["sequences"]["lost"] == [lost.sequence]
    lines = await metric_lines(world)
    assert f"heliograph_probe_lost_records{LABELS} 1.0" in lines
    assert f"heliograph_probe_degraded{LABELS} 1.0" in lines
    assert jfk["reason"] in await page(world)
    pass_seconds(world, 86_401)
    (again,) = send(world)
    arrive(world, again, 2)
    jfk = await probe_of(world)
    assert (jfk["state"], jfk["lost"]) == ("ok", 1)


async def test_each_fault_is_named(world: World) -> None:
    records = send(world, 4)
    for offset, index in enumerate((0, 0, 2, 1)):
        arrive(world, records[index], offset)
    probes = world.aggregate.probes.values()
    value = encode_probe_record(records[3])
    for offset, (key, altered) in enumerate(
        ((b"jfk-nyc", value[:-1] + b"!"), (b"jfk-nyc", b"?"), (None, b"?")), 4
    ):
        now_ms = world.now * 1000
        take_in(probes, offset, now_ms, key=key, value=altered, headers=(), create_time_ms=None)
    jfk = await probe_of(world)
    assert jfk["reason"] == (
        "1 record doubled (sequence number 0), 1 record out of order (sequence number 1), "
        "3 records altered (among them sequence number 3)"
    )
    assert (jfk["doubled"], jfk["out_of_order"], jfk["altered"], jfk["lost"]) == (1, 1, 3, 0)
    lines = await metric_lines(world)
    for fault, count in (("doubled", 1), ("out_of_order", 1), ("altered", 3)):
        assert f"heliograph_probe_{fault}_records_total{LABELS} {count}.0" in lines


async def test_silence_degrades_the_link_until_something_arrives(world: World) -> None:
    (record,) = send(world)
    pass_seconds(world, 29.9)
    assert (await probe_of(world))["state"] == "starting"
    pass_seconds(world, 0.1)
    world.aggregate.probes["jfk-nyc"].read_problem = "the aggregate has no such topic"
    jfk = await probe_of(world)
    assert jfk["state"] == "degraded"
    assert jfk["reason"] == (
        "nothing has arrived for 30 s, 1 record is under way, reading "
        "jfk.heliograph-probe.jfk-nyc.internal: the aggregate has no such topic"
    )
    assert (jfk["late"], jfk["lost"]) == (1, 0)
    arrive(world, record, 0)
    assert (await probe_of(world))["state"] == "ok"


async def test_a_source_that_takes_nothing_is_named(world: World) -> None:
    world.aggregate.probes["jfk-nyc"].send_problem = "no delivery report for 30000 ms"
    pass_seconds(world, 30)
    assert (await probe_of(world))["reason"] == (
        "nothing has arrived for 30 s, sending to heliograph-probe.jfk-nyc.internal at jfk: "
        "no delivery report for 30000 ms"
    )


async def test_records_of_another_run_are_no_fault_and_no_arrival(world: World) -> None:
    """A restarted aggregator also reads the records that its predecessor has sent."""
    (own,) = send(world)
    for offset in range(3):
        arrive(world, own._replace(run_id="01d", sequence=5 - offset), offset)
    arrive(world, own._replace(run_id="01d"), 3)
    pass_seconds(world, 20)
    jfk = await probe_of(world)
    assert (jfk["state"], jfk["received"], jfk["under_way"]) == ("starting", 0, 1)


async def test_a_probe_does_not_decide_about_readiness(world: World) -> None:
    pass_seconds(world, 1_000)
    assert (await probe_of(world))["state"] == "degraded"
    assert await world.get("/readyz") == {"ready": True}


@pytest.mark.parametrize(
    ("path", "status", "parameter"),
    [("?link=jfk-nyk", 404, "link"), ("?lnk=jfk-nyc", 400, "lnk")],
)
async def test_refusals(world: World, path: str, status: int, parameter: str) -> None:
    refused = await world.get(f"/api/v1/probe{path}", status)
    assert refused["parameter"] == parameter
    assert refused["did_you_mean"] in ("jfk-nyc", "link")
