"""The answer of one host's supervisor, or why there is none. Pure.

answers         it says what runs there
not_started     the host refuses the connection: no supervisor listens there
unreachable     no answer in time, no route, or an unknown name
wrong_token     it refuses the token of `http_security`
mistaken        a supervisor answers, but of another host or deployment
unusable        what answers is no supervisor of ours, or its certificate is not trusted
not_asked       this host has no token to send, or would send it without TLS
not_configured  `supervisors` does not have the host
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from local_cluster.foreign_json import parse_json

State = Literal[
    "answers",
    "not_started",
    "unreachable",
    "wrong_token",
    "mistaken",
    "unusable",
    "not_asked",
    "not_configured",
]
REASON_CHARACTERS_MAX: Final = 300
"""Of what another host sends, in a reason."""
_TEXTS: Final = ("deployment", "version", "installed", "file")
_ROW_TEXTS: Final = ("key", "label", "phase")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is known of one host."""

    state: State
    reason: str | None = None
    """Why there is no answer."""
    report: Mapping[str, Any] | None = None
    """The response to `GET /host`; with `answers` only."""
    clock_ahead_ms: int | None = None
    """How far the host's clock is ahead of this one at least; negative if it is behind. None if it
    does not tell its time."""

    @property
    def daemons(self) -> list[dict[str, Any]]:
        """The daemons that it reports."""
        return list(self.report["daemons"]) if self.report is not None else []


NOT_CONFIGURED: Final = Answer(
    state="not_configured", reason="`supervisors` of the topology does not have this host"
)


def read_answer(status: int, body: bytes, *, deployment: str, host: str) -> Answer:
    """Return the answer in a response that should be of this host and this deployment."""
    if status in (401, 403):
        return Answer(state="wrong_token", reason="it refuses the token of `http_security`")
    if status != 200:
        return Answer(state="unusable", reason=_refusal(status, body))
    try:
        report = parse_json(body)
    except ValueError:
        return Answer(state="unusable", reason="its answer is no JSON")
    if not _is_report(report):
        return Answer(state="unusable", reason="its answer is not that of a supervisor")
    if report["deployment"] != deployment:
        named = one_line(report["deployment"])
        return Answer(state="mistaken", reason=f"the supervisor there runs deployment {named}")
    if host not in report["hosts"]:
        named = one_line(", ".join(report["hosts"]))
        return Answer(state="mistaken", reason=f"the supervisor there is that of {named}")
    return Answer(state="answers", report=report)


def with_clock(answer: Answer, asked_ms: int, answered_ms: int) -> Answer:
    """Return the answer with what its time says of the host's clock.

    Both times are by the clock of this host. What the request took is no difference of clocks.
    """
    now_ms = None if answer.report is None else answer.report.get("now_ms")
    if not isinstance(now_ms, int):
        return answer  # an older version does not tell its time
    ahead_ms = max(0, now_ms - answered_ms) + min(0, now_ms - asked_ms)
    return replace(answer, clock_ahead_ms=ahead_ms)


def refusal_of(body: bytes) -> str:
    """Return the message of a refusal, cut short; empty without one."""
    try:
        document = parse_json(body)
    except ValueError:
        return ""
    message = document.get("message") if isinstance(document, dict) else None
    return one_line(message) if isinstance(message, str) else ""


def _refusal(status: int, body: bytes) -> str:
    message = refusal_of(body)
    return f"it answers with HTTP status {status}{f': {message}' if message else ''}"


def one_line(text: str) -> str:
    """Return text of another host as one line, cut short."""
    line = "".join(each if each.isprintable() else " " for each in text)
    return line if len(line) <= REASON_CHARACTERS_MAX else f"{line[:REASON_CHARACTERS_MAX]}..."


def _is_report(report: Any) -> bool:
    """Return whether a document has what is read of it here."""
    return (
        isinstance(report, dict)
        and all(isinstance(report.get(key), str) for key in _TEXTS)
        and isinstance(report.get("hosts"), list)
        and all(isinstance(host, str) for host in report["hosts"])
        and isinstance(report.get("daemons"), list)
        and all(_is_row(row) for row in report["daemons"])
    )


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and all(isinstance(row.get(key), str) for key in _ROW_TEXTS)
        and isinstance(row.get("pid"), int | None)
        and isinstance(row.get("version"), str | None)
        and isinstance(row.get("host"), str | None)
    )
