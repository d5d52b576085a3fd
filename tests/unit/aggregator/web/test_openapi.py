"""The OpenAPI document. `documented_answers.py` holds it against every answer of the HTTP tests."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from aggregator.metrics import version
from aggregator.web.openapi.document import openapi_document
from tests.unit.aggregator.documented_answers import DocumentedAnswers
from tests.unit.aggregator.http_world import World

METHODS = {"GET": "get", "POST": "post", "PUT": "put"}


async def test_every_address_is_documented(world: World) -> None:
    served = await world.get("/api/v1/openapi.json")
    assert served == openapi_document(version())
    assert world.client.app is not None
    routes = {
        (route.resource.canonical, METHODS[route.method])
        for route in world.client.app.router.routes()
        if route.resource is not None and route.method in METHODS
    }
    documented = {(path, method) for path, found in served["paths"].items() for method in found}
    assert documented == routes


def test_every_schema_is_valid_and_closed() -> None:
    document = openapi_document("1")
    text = json.dumps(document)
    for name, schema in document["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert schema["type"] in ("string", "object")
        if schema["type"] == "object":
            assert schema["additionalProperties"] is False
        assert f'#/components/schemas/{name}"' in text


async def test_parameters_of_a_path_are_the_names_in_it(world: World) -> None:
    for path, methods in (await world.get("/api/v1/openapi.json"))["paths"].items():
        for found in methods.values():
            parameters = [each for each in found.get("parameters", ()) if each["in"] == "path"]
            assert [each["name"] for each in parameters] == re.findall(r"\{(\w+)\}", path)
            assert all(each["required"] for each in parameters)


async def test_parameters_are_those_that_handlers_take(world: World) -> None:
    for path, methods in (await world.get("/api/v1/openapi.json"))["paths"].items():
        if not path.startswith("/api/"):
            continue
        address = path.replace("{logger}", "root")
        parameters = methods["get"].get("parameters", ())
        known = [each["name"] for each in parameters if each["in"] == "query"]
        async with world.client.get(f"{address}?no_such_name=1") as response:
            message = (await response.json())["message"]
        assert message.endswith(f"this address takes {', '.join(known)}"), message


@pytest.mark.parametrize(
    "changed", [{"more": 1}, {"error": None}, {"message": 5}, {"parameter": ["x"]}]
)
async def test_an_answer_that_differs_is_found(world: World, changed: dict[str, Any]) -> None:
    answers = DocumentedAnswers()
    right = {"error": "internal", "message": "m", "parameter": None, "did_you_mean": None}
    for document in (right, {**right, **changed}):
        answers._sent.append(
            ("get", "/api/v1/lag", 500, "application/json", json.dumps(document).encode())
        )
        if document is right:
            answers.check()
    with pytest.raises(AssertionError, match="get /api/v1/lag 500"):
        answers.check()
