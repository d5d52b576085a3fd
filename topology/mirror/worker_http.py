"""Telling the worker of a link something over its own HTTP port (`mirror_maker/worker/http.py`)."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from topology.deployment.deployment import Deployment
from topology.problems import unknown_name
from topology.supervisor.readiness import http_url

ANSWER_TIMEOUT_S: Final = 10.0
"""A worker waits for its target for less (`mirror_maker.worker.service.CONTROL_MS_MAX`), so that
it can say what it waited for."""
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
JsonObject = dict[str, Any]


class NotTold(Exception):
    """The worker could not be told, or refused, and why."""


class NoWorker(NotTold):
    """The link has no worker here that runs."""


def tell(deployment: Deployment, link: str, action: str, **values: object) -> JsonObject:
    """`POST /<action>` to the worker that copies the link; None among the values is left out.

    Raises NotTold.
    """
    return _answer(deployment, link, "POST", f"{action}?{_query(link, values)}")


def ask(deployment: Deployment, link: str, question: str, **values: object) -> JsonObject:
    """`GET /<question>` of the worker that copies the link, likewise. Raises NotTold."""
    return _answer(deployment, link, "GET", f"{question}?{_query(link, values)}")


def _query(link: str, values: Mapping[str, object]) -> str:
    given = {name: str(value) for name, value in values.items() if value is not None}
    return urllib.parse.urlencode({"link": link, **given})


def gone_topics(deployment: Deployment, link: str) -> list[JsonObject]:
    """What the worker of a link says of topics that are gone at the source, with `topic`, `copy`,
    `fate` and `reason`; empty where no worker runs, as then nothing is done about them.

    Raises NotTold where a worker runs and does not answer.
    """
    try:
        status = _answer(deployment, link, "GET", "status")
    except NoWorker:
        return []
    found: JsonObject = next((each for each in status["links"] if each["name"] == link), {})
    gone: list[JsonObject] = found.get("deletions", {}).get("gone", [])
    return gone


def _answer(deployment: Deployment, link: str, method: str, path: str) -> JsonObject:
    """Raises NotTold."""
    url = _worker_url(deployment, link)
    request = urllib.request.Request(f"{url}/{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S) as response:
            answer = json.loads(response.read(ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as error:
        reason = error.read(ANSWER_BYTES_MAX).decode(errors="replace")
        raise NotTold(f"link {link}: {reason}") from error
    except TimeoutError as error:
        late = "; it may still do it, so look, or give the order again" if method == "POST" else ""
        raise NotTold(
            f"the worker of link {link} ({url}) does not answer within {ANSWER_TIMEOUT_S:g} s{late}"
        ) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(getattr(error, "reason", error), ConnectionRefusedError):
            raise NoWorker(f"the worker of link {link} does not run") from error  # it was killed
        raise NotTold(f"the worker of link {link} ({url}) does not answer: {error}") from error
    if not isinstance(answer, dict):
        raise NotTold(f"the worker of link {link} answers something else")
    return answer


def _worker_url(deployment: Deployment, link: str) -> str:
    view = next((each for each in deployment.links if each.name == link), None)
    if view is None:
        raise NotTold(unknown_name("link", link, [each.name for each in deployment.links]))
    ready_file = deployment.daemon(view.daemon).ready_file
    assert ready_file is not None, "a mirror worker has a ready file"
    try:
        url = http_url(json.loads(Path(ready_file).read_bytes()))
    except (OSError, ValueError) as error:
        raise NoWorker(f"the worker of link {link} does not run") from error
    if url is None:
        raise NotTold(f"the worker of link {link} does not say where it listens")
    return url
