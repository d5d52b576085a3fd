"""The loggers of mirror workers and aggregators, over their HTTP APIs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

from local_cluster.log_levels import UnknownLogger
from topology.deployment.deployment import Daemon, Deployment
from topology.status.process_http import CallFailed, Refused, call, url_of_daemon

JsonObject = dict[str, Any]
Answer = TypeVar("Answer")
PATHS: Final = {"mirror": "loggers", "aggregator": "api/v1/loggers"}
"""The address of the loggers, by the role of a daemon."""
CALLS_MAX: Final = 16
"""Processes that are asked at the same time."""


class Failure(NamedTuple):
    """A process that was not asked, did not respond, or refused, and why."""

    process: str
    reason: str


def read_levels(
    deployment: Deployment, processes: Sequence[Daemon]
) -> tuple[dict[str, list[JsonObject]], list[Failure]]:
    """Return the loggers of each process that responds, by its key, and the failures.

    Each logger has `logger`, `level` and `is_set`.
    """

    def read(daemon: Daemon) -> list[JsonObject]:
        try:
            document = call(
                deployment,
                url_of_daemon(deployment, daemon, daemon.key),
                daemon.key,
                "GET",
                _path(daemon),
            )
        except Refused as error:
            if error.status != 404:
                raise
            raise CallFailed(
                f"{daemon.key} runs an older version, which cannot change levels:"
                " `heliograph up` restarts it with this one"
            ) from error
        return list(document["loggers"])

    return _each(processes, read)


def unknown_loggers(
    wanted: Collection[str], known: Mapping[str, Sequence[JsonObject]]
) -> list[Failure]:
    """Return a failure for each wanted logger that a process does not have. `known` is by key."""
    failures = []
    for process, loggers in known.items():
        names = [str(each["logger"]) for each in loggers]
        for name in wanted:
            if name not in names:
                error = UnknownLogger(f"{process} has no logger {name!r}", name, names)
                failures.append(Failure(process, str(error)))
    return failures


def set_levels(
    deployment: Deployment, processes: Sequence[Daemon], wanted: Mapping[str, str | None]
) -> tuple[dict[str, list[JsonObject]], list[Failure]]:
    """Set the levels in each process, one logger after the other. Returns as `read_levels`."""

    def change(daemon: Daemon) -> list[JsonObject]:
        url = url_of_daemon(deployment, daemon, daemon.key)
        return [
            call(
                deployment,
                url,
                daemon.key,
                "PUT",
                f"{_path(daemon)}/{quote(name, safe='')}",
                {"level": level},
            )
            for name, level in wanted.items()
        ]

    return _each(processes, change)


def _each(
    processes: Sequence[Daemon], ask: Callable[[Daemon], Answer]
) -> tuple[dict[str, Answer], list[Failure]]:
    """Ask the processes at the same time; the answers are in their order."""

    def answer(daemon: Daemon) -> Answer | Failure:
        try:
            return ask(daemon)
        except CallFailed as error:
            return Failure(daemon.key, str(error))

    if not processes:
        return {}, []
    with ThreadPoolExecutor(min(len(processes), CALLS_MAX)) as pool:
        answers = list(pool.map(answer, processes))
    pairs = list(zip(processes, answers, strict=True))
    return (
        {daemon.key: each for daemon, each in pairs if not isinstance(each, Failure)},
        [each for each in answers if isinstance(each, Failure)],
    )


def _path(daemon: Daemon) -> str:
    return PATHS[daemon.role]
