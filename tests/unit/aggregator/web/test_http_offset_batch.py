"""`POST /api/v1/translate`: many offsets in one request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aggregator.web.offset_batch import OFFSETS_MAX
from tests.unit.aggregator.http_world import World


async def post(world: World, body: Any, status: int = 200) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with world.client.post("/api/v1/translate", data=data) as response:
        document = await response.json()
        assert response.status == status, document
        return document


async def test_each_answer_is_that_of_a_single_request(world: World) -> None:
    offsets = [["flights", 0, offset] for offset in (0, 23, 49, 50, 10**9)]
    found = await post(world, {"link": "jfk-nyc", "offsets": [*offsets, ["gates", 4, 1]]})
    assert found["link"] == "jfk-nyc"
    for answer, (_, _, offset) in zip(found["offsets"], offsets, strict=False):
        alone = await world.translate(offset=offset)
        assert {**answer, "target_topic": None} == {**alone, "target_topic": None}
    assert (found["offsets"][-1]["topic"], found["offsets"][-1]["state"]) == ("gates", "pending")


async def test_ten_thousand_offsets_in_one_request(world: World) -> None:
    offsets = [["flights", 0, index % 50] for index in range(OFFSETS_MAX)]
    found = await post(world, {"link": "jfk-nyc", "offsets": offsets})
    assert [each["target_offset"] for each in found["offsets"]] == [
        100 + index % 50 for index in range(OFFSETS_MAX)
    ]
    await post(world, {"link": "jfk-nyc", "offsets": [*offsets, ["flights", 0, 0]]}, 400)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{", "not JSON"),
        ([], "link and offsets"),
        ({"link": "jfk-nyc"}, "link and offsets"),
        ({"link": 3, "offsets": []}, "name of a link"),
        ({"link": "jfk-nyc", "offsets": {}}, "a list"),
        ({"link": "jfk-nyc", "offsets": [["f", 0, 1], ["f", -1, 1]]}, "offsets[1]"),
        ({"link": "jfk-nyc", "offsets": [["f", True, 1]]}, "offsets[0]"),
        ({"link": "jfk-nyc", "offsets": [["f", 0]]}, "offsets[0]"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"link": "jfk-nyc", "offsets": [["\\ud800", 0, 1]]}', "not JSON"),
    ],
)
async def test_a_wrong_body_is_refused_and_the_entry_named(
    world: World, body: Any, named: str
) -> None:
    assert named in (await post(world, body, 400))["message"]


async def test_a_body_that_is_too_large_or_not_what_its_encoding_says_is_refused(
    world: World,
) -> None:
    await post(world, b" " * (1 << 21), 413)
    headers = {"Content-Encoding": "gzip"}
    async with world.client.post("/api/v1/translate", data=b"no gzip", headers=headers) as response:
        assert response.status == 400
        assert isinstance((await response.json())["message"], str)


async def test_an_unknown_link_is_not_found(world: World) -> None:
    wrong = await post(world, {"link": "jfk-nyx", "offsets": []}, 404)
    assert wrong["did_you_mean"] == "jfk-nyc"
