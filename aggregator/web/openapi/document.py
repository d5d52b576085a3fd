"""The OpenAPI document of the HTTP API, out of its operations and the types of answers. Pure."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter

from aggregator.web.openapi.answers import Answer, Problem
from aggregator.web.openapi.operations import OPERATIONS, Operation, Parameter

OPENAPI_VERSION: Final = "3.1.0"
"""Its schemas are JSON Schema 2020-12."""
EVERY_ERROR: Final = (400, 401, 403, 500)
"""Statuses of problems that any address may answer with. 401 and 403 need `http_security` in the
topology."""
SECURITY_SCHEMES: Final = {
    "token": {"type": "http", "scheme": "bearer"},
    "password": {
        "type": "http",
        "scheme": "basic",
        "description": "The token as the password of any user, for GET.",
    },
}

Document = dict[str, Any]


@cache
def openapi_document(version: str) -> Document:
    """Return the document of this version of the service. The caller must not change it."""
    answers = {each.answer for each in OPERATIONS} | {each.body for each in OPERATIONS} | {Problem}
    kinds = sorted((each for each in answers if each is not None), key=lambda each: each.__name__)
    _, schemas = TypeAdapter.json_schemas(
        [(each.__name__, "validation", TypeAdapter(each)) for each in kinds],
        ref_template="#/components/schemas/{model}",
    )
    paths: dict[str, Document] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method] = _operation(each)
    return {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "Heliograph aggregator",
            "version": version,
            "description": "Until a value is known, it is null and never 0.",
        },
        "paths": paths,
        "security": [{}, *({name: []} for name in SECURITY_SCHEMES)],
        "components": {
            "schemas": {n: _plain(each) for n, each in schemas["$defs"].items()},
            "securitySchemes": SECURITY_SCHEMES,
        },
    }


def _plain(schema: Document) -> Document:
    """Return a schema without defaults: a key that is absent has no value."""
    properties = {
        name: {key: value for key, value in each.items() if key != "default"}
        for name, each in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties} if properties else schema


def _operation(found: Operation) -> Document:
    statuses = dict.fromkeys((200, *found.also), found.answer)
    responses = {
        str(status): {"description": found.about, "content": _content(found.content, answer)}
        for status, answer in statuses.items()
    }
    for status in sorted({*found.errors, *EVERY_ERROR} - statuses.keys()):
        responses[str(status)] = {
            "description": "A problem.",
            "content": _content("application/json", Problem),
        }
    document: Document = {"summary": found.about, "responses": responses}
    if found.parameters:
        document["parameters"] = [_parameter(each) for each in found.parameters]
    if found.body is not None:
        content = _content("application/json", found.body)
        document["requestBody"] = {"required": True, "content": content}
    return document


def _parameter(found: Parameter) -> Document:
    schema: Document = {"type": "string"}
    if found.maximum is not None:
        schema = {"type": "integer", "minimum": 0, "maximum": found.maximum}
    return {
        "name": found.name,
        "in": found.place,
        "description": found.about,
        "required": found.is_required,
        "schema": {"type": "array", "items": schema} if found.is_repeated else schema,
    }


def _content(kind: str, answer: type[Answer] | None) -> Document:
    if answer is None:
        is_json = kind == "application/json"
        return {kind: {"schema": {"type": "object" if is_json else "string"}}}
    return {kind: {"schema": {"$ref": f"#/components/schemas/{answer.__name__}"}}}
