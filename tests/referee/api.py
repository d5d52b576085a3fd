"""The aggregator's HTTP API, asked as any client asks it."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp

from tests.referee.checks.translation import Answer

AT_ONCE: Final = 16
"""Requests at the same time: one for each offset, as there is no call for many."""
ANSWER_SECONDS_MAX: Final = 10.0
PATIENCE_SECONDS: Final = 60.0
"""How long a question is repeated that is not answered (503: a map is being read)."""
TRANSLATE, REVERSE = "/api/v1/translate", "/api/v1/translate/reverse"
GROUPS = "/api/v1/groups/translate"

Query = Mapping[str, str | int]


class ApiUnavailable(Exception):
    """The aggregator did not answer a question."""


def get(url: str, path: str, query: Query | None = None) -> Any:
    """One JSON document. Raises ApiUnavailable."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    full = f"{url}{path}?{urlencode(query or {})}"
    while True:
        try:
            with urllib.request.urlopen(full, timeout=ANSWER_SECONDS_MAX) as response:
                return json.loads(response.read())
        except (OSError, ValueError) as error:
            if time.monotonic() > deadline:
                detail = error.read() if isinstance(error, urllib.error.HTTPError) else b""
                raise ApiUnavailable(f"{full}: {error} {detail[:500]!r}") from error
            time.sleep(0.5)


def ask_many(url: str, path: str, queries: Sequence[Query]) -> list[Answer]:
    """The answers to questions about offsets, in their order. Raises ApiUnavailable."""
    return asyncio.run(_ask_many(url, path, queries))


async def _ask_many(url: str, path: str, queries: Sequence[Query]) -> list[Answer]:
    answers: list[Answer | None] = [None] * len(queries)
    waiting = iter(range(len(queries)))
    limit = aiohttp.TCPConnector(limit=AT_ONCE)
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS_MAX)
    async with aiohttp.ClientSession(url, connector=limit, timeout=timeout) as session:

        async def ask(indexes: Iterable[int]) -> None:
            for index in indexes:
                answers[index] = await _ask(session, path, queries[index])

        await asyncio.gather(*(ask(waiting) for _ in range(AT_ONCE)))
    return [answer for answer in answers if answer is not None]


async def _ask(session: aiohttp.ClientSession, path: str, query: Query) -> Answer:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        problem: object
        try:
            async with session.get(path, params=query) as response:
                text = await response.text()
                if response.status == 200:
                    return Answer.of(json.loads(text))
                problem = f"{response.status} {text[:500]}"
                if response.status not in (502, 503, 504):
                    # A refusal is an answer: the check of the offset says what is wrong with it.
                    return Answer(problem, None, None, None, None, None)
        except (aiohttp.ClientError, TimeoutError) as error:
            problem = error
        if time.monotonic() > deadline:
            raise ApiUnavailable(f"{path} {dict(query)}: {problem}")
        await asyncio.sleep(0.5)
