"""The addresses of the HTTP API: parameters, answers and errors of each. Pure."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from aggregator.web.openapi.answers import (
    Alive,
    Answer,
    Lag,
    Links,
    Logger,
    Loggers,
    NewLevel,
    OffsetBatch,
    Ready,
    Topics,
    TranslatedBatch,
    TranslatedGroup,
    TranslatedOffset,
)
from aggregator.web.openapi.observations import Audit, Completeness, Probes
from aggregator.web.openapi.workers import Workers
from aggregator.web.parameters import OFFSET_MAX, PARTITION_MAX


class Parameter(NamedTuple):
    """A parameter of the query or of the path."""

    name: str
    about: str
    is_required: bool = False
    maximum: int | None = None
    """Of an integer; None for a text."""
    is_repeated: bool = False
    place: Literal["query", "path"] = "query"


class Operation(NamedTuple):
    """One method of one address."""

    path: str
    about: str
    answer: type[Answer] | None
    """None: the answer has no schema."""
    parameters: tuple[Parameter, ...] = ()
    method: str = "get"
    body: type[Answer] | None = None
    errors: tuple[int, ...] = ()
    """Statuses of problems, besides those that every address has."""
    also: tuple[int, ...] = ()
    """Other statuses of the answer."""
    content: str = "application/json"


_LINK: Final = Parameter("link", "Only this link.")
_TOPIC: Final = Parameter("topic", "Only this topic.")
_THE_LINK: Final = Parameter("link", "The link.", True)
_THE_PARTITION: Final = Parameter("partition", "The partition.", True, PARTITION_MAX)
_THE_OFFSET: Final = Parameter("offset", "The offset.", True, OFFSET_MAX)
_THE_LOGGER: Final = Parameter("logger", "Its name, or root.", True, place="path")

OPERATIONS: Final = (
    Operation("/api/v1/links", "The links and the state of their maps.", Links),
    Operation("/api/v1/topics", "The merged topics.", Topics, errors=(503,)),
    Operation(
        "/api/v1/translate",
        "A source offset, translated to the aggregate.",
        TranslatedOffset,
        (_THE_LINK, Parameter("topic", "The source topic.", True), _THE_PARTITION, _THE_OFFSET),
        errors=(404, 503),
    ),
    Operation(
        "/api/v1/translate",
        "Up to 10,000 source offsets of a link, translated in the order of the request.",
        TranslatedBatch,
        method="post",
        body=OffsetBatch,
        errors=(404, 413, 503),
    ),
    Operation(
        "/api/v1/translate/reverse",
        "An aggregate offset, translated to its source.",
        TranslatedOffset,
        (
            _LINK,
            Parameter("topic", "The aggregate's topic.", True),
            _THE_PARTITION,
            _THE_OFFSET,
        ),
        errors=(404, 503),
    ),
    Operation(
        "/api/v1/groups/translate",
        "The committed offsets of a group of the source or of the aggregate, on both sides.",
        TranslatedGroup,
        (
            _THE_LINK,
            Parameter("group", "The group.", True),
            Parameter("topic", "Only these topics.", is_repeated=True),
            Parameter("direction", "Whose group: to_aggregate (default) or to_source."),
        ),
        errors=(404, 502, 503, 504),
    ),
    Operation("/api/v1/lag", "The lag of the links.", Lag, (_LINK,), errors=(404,)),
    Operation(
        "/api/v1/workers",
        "What mirror workers know of the links: troubles, gaps, rights, orders, groups, latency.",
        Workers,
        (_LINK,),
        errors=(404,),
    ),
    Operation("/api/v1/probe", "The probes of the links.", Probes, (_LINK,), errors=(404,)),
    Operation(
        "/api/v1/audit",
        "The audits of the links.",
        Audit,
        (
            _LINK,
            _TOPIC,
            Parameter("partition", "Only this partition.", maximum=PARTITION_MAX),
            Parameter("since_ms", "Only buckets of record times from here on.", False, OFFSET_MAX),
        ),
        errors=(404, 503),
    ),
    Operation(
        "/api/v1/completeness",
        "Until when merged topics are complete, over all datacenters.",
        Completeness,
        (
            _TOPIC,
            Parameter("late_ms", "When a fast answer stops waiting.", False, OFFSET_MAX),
        ),
        errors=(404, 503),
    ),
    Operation("/api/v1/loggers", "The loggers of the process with their levels.", Loggers),
    Operation(
        "/api/v1/loggers/{logger}",
        "A logger with its level.",
        Logger,
        (_THE_LOGGER,),
        errors=(404,),
    ),
    Operation(
        "/api/v1/loggers/{logger}",
        "Set the level of a logger until the process ends.",
        Logger,
        (_THE_LOGGER,),
        method="put",
        body=NewLevel,
        errors=(404,),
    ),
    Operation("/api/v1/openapi.json", "This document.", None),
    Operation("/healthz", "200 while the process responds.", Alive),
    Operation("/livez", "200 while the process responds.", Alive),
    Operation(
        "/readyz",
        "200 once topics and offset maps are known.",
        Ready,
        (Parameter("verbose", "1 adds every check."),),
        also=(503,),
    ),
    Operation("/metrics", "The metrics of Prometheus.", None, content="text/plain"),
    Operation("/", "The page.", None, content="text/html"),
)
