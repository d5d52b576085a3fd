"""What the workers know of links, as the aggregator passes it on."""

from __future__ import annotations

from typing import Any

from aggregator.link_state import GROUPS_MAX, NAMES_MAX, TROUBLES_MAX
from mirror_maker.formats.probe import probe_topic_name
from tests.unit.aggregator.http_world import World

GAP = {"topic": "flights", "partition": 0, "source_from": 5, "source_to": 7, "reason": "too large"}


def flow(partition: int, **changed: Any) -> dict[str, Any]:
    return {
        "topic": "flights",
        "partition": partition,
        "target_topic": "jfk.flights",
        "state": "RUNNING",
        "trouble": None,
        "reason": None,
        "restarts": 0,
        "lag_records": 0,
        "lag_bytes": 0,
        "lag_seconds": 0.0,
        "latency": {"counts": [0, 2], "sum_ms": 30, "min_ms": 10, "max_ms": 20},
        "gaps_by_reason": {},
        "last_gap": None,
        **changed,
    }


def position(number: int) -> dict[str, Any]:
    return {
        "group": f"g{number}",
        "topic": "flights",
        "partition": 0,
        "target_topic": "jfk.flights",
        "source_offset": 5,
        "target_offset": None,
        "state": "pending",
        "held_by": "jfk-nyc",
        "reread_records": None,
    }


def worker(name: str, *flows: dict[str, Any], **changed: Any) -> dict[str, Any]:
    link = {
        "name": "jfk-nyc",
        "state": "RUNNING",
        "reason": None,
        "partitions": len(flows),
        "partitions_known": 4,
        "rights_missing": [],
        "topics_left_out": ["gates: excluded"],
        "controls": {
            "paused": [],
            "source_bytes_per_second": None,
            "target_bytes_per_second": 5e6,
        },
        "groups": {"enabled": True, "failure": None, "states": {}, "positions": []},
        "flows": list(flows),
        **changed,
    }
    return {"worker_id": name, "target": "nyc", "links": [link]}


async def test_troubles_gaps_orders_and_latency_of_all_workers(world: World) -> None:
    stopped = flow(
        1,
        state="FAILED",
        trouble="truncated",
        reason="the source lost records",
        gaps_by_reason={"too large": 1},
        last_gap=GAP,
    )
    unread = {**flow(3), "latency": {"counts": [0], "sum_ms": 0, "min_ms": None, "max_ms": None}}
    probe = {**stopped, "topic": probe_topic_name("jfk-nyc")}
    world.aggregate.set_workers(
        [
            worker("w", flow(0, gaps_by_reason={"too large": 2}), stopped, probe),
            worker("v", unread, rights_missing=["mirror may not READ topic x at jfk"]),
        ]
    )
    (jfk,) = (await world.get("/api/v1/workers?link=jfk-nyc"))["links"]
    (trouble,) = jfk["troubles"]
    assert (trouble["worker_id"], trouble["partition"], trouble["last_gap"]) == ("w", 1, GAP)
    assert jfk["gaps_by_reason"] == {"too large": 3}
    first, second = jfk["workers"]
    assert first["latency_ms"] == {"records": 4, "min": 10, "mean": 15.0, "max": 20}
    assert first["controls"]["target_bytes_per_second"] == 5e6
    assert second["latency_ms"] == {"records": 0, "min": None, "mean": None, "max": None}
    assert second["rights_missing"] == ["mirror may not READ topic x at jfk"]


async def test_answers_are_bounded_and_say_how_much_they_leave_out(world: World) -> None:
    many = [flow(number, trouble="t", reason="r") for number in range(TROUBLES_MAX + 3)]
    world.aggregate.set_workers(
        [
            worker(
                "w",
                *many,
                rights_missing=["r"] * (NAMES_MAX + 1),
                topics_left_out=["t"] * (NAMES_MAX + 2),
                controls={"paused": [{"topic": "flights", "partition": 0}] * (NAMES_MAX + 4)},
                groups={
                    "enabled": True,
                    "failure": "no coordinator",
                    "states": {"pending": 1_000},
                    "positions": [position(number) for number in range(GROUPS_MAX + 5)],
                },
            )
        ]
    )
    (jfk,) = (await world.get("/api/v1/workers?link=jfk-nyc"))["links"]
    assert (len(jfk["troubles"]), jfk["troubles_more"]) == (TROUBLES_MAX, 3)
    (found,) = jfk["workers"]
    assert (len(found["rights_missing"]), found["rights_missing_more"]) == (NAMES_MAX, 1)
    assert (len(found["topics_left_out"]), found["topics_left_out_more"]) == (NAMES_MAX, 2)
    assert (len(found["controls"]["paused"]), found["controls"]["paused_more"]) == (NAMES_MAX, 4)
    groups = found["groups"]
    assert (len(groups["positions"]), groups["positions_more"]) == (GROUPS_MAX, 1_000 - GROUPS_MAX)


async def test_an_older_worker_and_no_worker_know_less(world: World) -> None:
    old = {"name": "jfk-nyc", "partitions_known": 1, "flows": []}
    world.aggregate.set_workers([{"target": "nyc", "links": [old]}])
    jfk, ewr, _ = (await world.get("/api/v1/workers"))["links"]
    (found,) = jfk["workers"]
    assert (found["rights_missing"], found["controls"], found["groups"]) == (None, None, None)
    assert (ewr["workers"], ewr["troubles"]) == ([], [])
    await world.get("/api/v1/workers?link=nowhere", 404)
