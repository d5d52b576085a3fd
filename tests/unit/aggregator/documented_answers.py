"""Holds the OpenAPI document against every answer of an aggregator's HTTP tests."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from aiohttp import web
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from aggregator.web.openapi.document import openapi_document

UNDOCUMENTED = frozenset({404, 405})
"""Statuses of requests that match no address or method."""


class DocumentedAnswers:
    """Answers as they were sent, to check at the end of a test."""

    def __init__(self) -> None:
        self._sent: list[tuple[str, str | None, int, str, bytes]] = []

    async def note(self, request: web.Request, response: web.StreamResponse) -> None:
        """Take an answer: a handler of the signal `on_response_prepare`."""
        resource = request.match_info.route.resource
        path = None if resource is None else resource.canonical
        body = response.body if isinstance(response, web.Response) else b""
        assert isinstance(body, bytes), (path, type(body))
        self._sent.append(
            (request.method.lower(), path, response.status, response.content_type, body)
        )

    def check(self) -> None:
        """Fail for an answer that the document does not describe."""
        for method, path, status, content_type, body in self._sent:
            if path is None and status in UNDOCUMENTED:
                schema: Any = {"$ref": "#/components/schemas/Problem"}
            else:
                responses = openapi_document("1")["paths"][path][method]["responses"]
                assert str(status) in responses, f"{method} {path} answers {status}"
                content = responses[str(status)]["content"]
                assert content_type in content, f"{method} {path} answers {content_type}"
                schema = content[content_type]["schema"]
            if content_type == "application/json":
                found = list(_validator(json.dumps(schema)).iter_errors(json.loads(body)))
                assert not found, f"{method} {path} {status}: {found[0].json_path}: {found[0]}"


@cache
def _validator(schema: str) -> Draft202012Validator:
    components = openapi_document("1")["components"]
    return Draft202012Validator({**json.loads(schema), "components": components})
