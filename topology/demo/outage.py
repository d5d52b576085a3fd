"""Shuts the brokers of one datacenter down, and asks what the aggregate knows meanwhile."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from topology.demo.dashboard.document import Table
from topology.demo.prepare import DemoError
from topology.deployment.deployment import Deployment
from topology.deployment.state_dir import StateDir
from topology.status.completeness import time_text
from topology.status.reports import fetch_completeness
from topology.supervisor.control_client import supervisor_apply, supervisor_status

LATE_MS: Final = 3_000
"""A datacenter that is later than this is missing in the fast answer."""
WAIT_SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.2
_BROKER: Final = "broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageAnswer:
    """What one kind of answer says while a datacenter is down."""

    kind: str
    complete_through_ms: int | None
    says: str


def ask_completeness(
    deployment: Deployment, state: StateDir, aggregate: str, topic: str
) -> Mapping[str, Any] | None:
    """Return the aggregator's answers about one topic; None if it gives none."""
    report = supervisor_status(state.socket_path)
    query = urlencode({"topic": topic, "late_ms": LATE_MS})
    return fetch_completeness(deployment, report, f"?{query}").get(aggregate)


@contextlib.contextmanager
def brokers_down(deployment: Deployment, state: StateDir, datacenter: str) -> Iterator[None]:
    """Stop the brokers of a datacenter, and start them again. Raises DemoError."""
    keys = {
        each.key
        for each in deployment.daemons
        if each.role == _BROKER and each.datacenter == datacenter
    }
    kept = tuple(each for each in deployment.daemons if each.key not in keys)
    supervisor_apply(state.socket_path, replace(deployment, daemons=kept))
    try:
        _wait(
            lambda: not keys & _phases(state).keys(),
            f"the brokers of {datacenter} did not stop",
        )
        yield
    finally:
        supervisor_apply(state.socket_path, deployment)
    _wait(
        lambda: all(_phases(state).get(key) == "running" for key in keys),
        f"the brokers of {datacenter} did not start again",
    )


def wait_until_missing(
    ask: Callable[[], Mapping[str, Any] | None], datacenter: str
) -> list[OutageAnswer]:
    """Wait until the fast answer continues without a datacenter alone; return all answers.

    On a busy machine others may be late for a moment. Raises DemoError.
    """
    document: Mapping[str, Any] = {}

    def is_missing() -> bool:
        nonlocal document
        document = ask() or {}
        missing = document.get("fast", {}).get("missing", ())
        return {each["datacenter"] for each in missing} == {datacenter}

    _wait(is_missing, f"no answer continues without {datacenter} alone")
    return answers_of(document)


def wait_until_complete(
    ask: Callable[[], Mapping[str, Any] | None], after_ms: int, datacenter: str
) -> None:
    """Wait until the strict answer has passed a time. Raises DemoError."""

    def has_passed() -> bool:
        through_ms = ((ask() or {}).get("strict") or {}).get("complete_through_ms")
        return through_ms is not None and through_ms > after_ms

    _wait(has_passed, f"{datacenter} is back, but its copies are not complete")


def answers_of(document: Mapping[str, Any]) -> list[OutageAnswer]:
    """Return each kind of answer of a document of the aggregator. Pure."""
    strict, fast = document["strict"], document["fast"]
    late = {each["datacenter"]: each for each in fast["missing"]}
    names = ", ".join(late)
    found = [
        OutageAnswer(
            kind="strict",
            complete_through_ms=strict["complete_through_ms"],
            says=f"waits for {names}" if late else "complete",
        ),
        OutageAnswer(
            kind="fast",
            complete_through_ms=fast["complete_through_ms"],
            says=f"continues without {names}" if late else "complete",
        ),
    ]
    for topic in document["topics"]:
        for part in topic["datacenters"]:
            name = part["datacenter"]
            found.append(
                OutageAnswer(
                    kind=name,
                    complete_through_ms=part["complete_through_ms"],
                    says=_reason(late[name]) if name in late else "up to date",
                )
            )
    return found


def _reason(missing: Mapping[str, Any]) -> str:
    since_ms = missing["since_ms"]
    since = "" if since_ms is None else f", since {time_text(since_ms)}"
    return f"{missing['reason']}{since}"


def outage_table(datacenter: str, answers: Sequence[OutageAnswer]) -> Table:
    """Return the answers as a table of the page."""
    return Table(
        title=f"{datacenter} is shut down: what each kind of answer says",
        columns=("answer", "complete through", "says"),
        rows=[(each.kind, time_text(each.complete_through_ms), each.says) for each in answers],
    )


def _phases(state: StateDir) -> dict[str, str]:
    return {row["key"]: row["phase"] for row in supervisor_status(state.socket_path)["daemons"]}


def _wait(is_reached: Callable[[], bool], problem: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_reached():
        if time.monotonic() > deadline:
            raise DemoError(f"{problem} within {WAIT_SECONDS_MAX:g} s")
        time.sleep(POLL_SECONDS)
