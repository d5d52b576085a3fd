"""The handlers of /api/v1. Each returns one JSON document.

All of them read from memory, except the translation of groups, which waits for their cluster at
most `GROUP_SECONDS_MAX`. A link whose map is being read returns 503. A link that has not started
has no mapped offsets, so its offsets are pending.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from aiohttp import web

from aggregator.aggregate import GROUP_SECONDS_MAX, Aggregate
from aggregator.completeness.answers import LATE_MS
from aggregator.completeness.completeness_document import completeness_document
from aggregator.maps.catalog import MirroredTopic, nearest
from aggregator.maps.followed_topic import TopicState
from aggregator.maps.link_map import TranslationState
from aggregator.maps.topic_follower import REREAD_SECONDS
from aggregator.metrics import AggregatorMetrics, version
from aggregator.settings import LinkSettings
from aggregator.web import parameters, views
from aggregator.web.offset_batch import parse_batch
from aggregator.web.openapi.document import openapi_document
from aggregator.web.problems import Problem, not_found, not_loaded
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats import MapFormatError
from mirror_maker.formats.verdicts import BUCKET_MS

RETRY_AFTER_SECONDS: Final = 1
TRANSLATED_AT_ONCE_MAX: Final = 500
"""Offsets of a large request that are translated without a break."""
AGGREGATE: Final = web.AppKey("aggregate", Aggregate)
METRICS: Final = web.AppKey("metrics", AggregatorMetrics)
TO_SOURCE: Final = "to_source"
DIRECTIONS: Final = ("to_aggregate", TO_SOURCE)
"""Of the translation of groups."""

_REVERSE_ORDER = (
    TranslationState.EXACT,
    TranslationState.INEXACT,
    TranslationState.PENDING,
    TranslationState.UNMAPPED,
)
"""Precedence among several links: the link with the record first, and "unmapped" only if no link is
pending."""

routes = web.RouteTableDef()


@routes.get("/api/v1/links")
async def get_links(request: web.Request) -> web.Response:
    """Return all links with the state of their maps."""
    parameters.check_names(request.query, ())
    return web.json_response(views.links(request.app[AGGREGATE]))


@routes.get("/api/v1/openapi.json")
async def get_openapi(request: web.Request) -> web.Response:
    """Return the OpenAPI document of this API."""
    parameters.check_names(request.query, ())
    return web.json_response(openapi_document(version()))


@routes.get("/api/v1/topics")
async def get_topics(request: web.Request) -> web.Response:
    """Return the merged topics."""
    parameters.check_names(request.query, ())
    aggregate = request.app[AGGREGATE]
    catalog = aggregate.catalog()
    if catalog is None:
        raise _topics_unknown()
    return web.json_response(views.topics(aggregate, catalog))


@routes.get("/api/v1/translate")
async def translate(request: web.Request) -> web.Response:
    """Translate a source offset to the aggregate."""
    query = request.query
    parameters.check_names(query, ("link", "topic", "partition", "offset"))
    aggregate = request.app[AGGREGATE]
    link = _find_link(aggregate, parameters.text(query, "link"))
    topic, partition = parameters.text(query, "topic"), parameters.partition(query)
    offset = parameters.offset(query)
    _require_loaded(aggregate, link)
    answer = aggregate.maps.translate(link.name, topic, partition, offset)
    if answer.target_topic is None:
        part = _find_mirrored(aggregate, link, topic)
        if part is not None:
            _require_partition(part, partition)
            answer = replace(answer, target_topic=part.topic)
    request.app[METRICS].count_translation(link.name, "forward", answer.state.value)
    return web.json_response(views.translated_offset(answer))


@routes.post("/api/v1/translate")
async def translate_batch(request: web.Request) -> web.Response:
    """Translate up to 10,000 source offsets of a link, in the order of the request."""
    parameters.check_names(request.query, ())
    batch = parse_batch(await request.read())
    aggregate, metrics = request.app[AGGREGATE], request.app[METRICS]
    link = _find_link(aggregate, batch.link)
    _require_loaded(aggregate, link)
    found = []
    for index, (topic, partition, offset) in enumerate(batch.offsets):
        if index % TRANSLATED_AT_ONCE_MAX == TRANSLATED_AT_ONCE_MAX - 1:
            await asyncio.sleep(0)  # other requests are answered meanwhile
        answer = aggregate.maps.translate(link.name, topic, partition, offset)
        metrics.count_translation(link.name, "forward", answer.state.value)
        found.append(views.translated_offset(answer))
    return web.json_response({"link": link.name, "offsets": found})


@routes.get("/api/v1/translate/reverse")
async def translate_reverse(request: web.Request) -> web.Response:
    """Translate an aggregate offset to its source.

    Without `link`, the answer is that of the link that copied the record.
    """
    query = request.query
    parameters.check_names(query, ("link", "topic", "partition", "offset"))
    aggregate = request.app[AGGREGATE]
    target_topic, partition = parameters.text(query, "topic"), parameters.partition(query)
    offset = parameters.offset(query)
    parts = _find_target(aggregate, target_topic)
    if "link" in query:
        link = _find_link(aggregate, parameters.text(query, "link"))
        if parts and link.name not in {part.link for part in parts}:
            filled_by = " and ".join(repr(part.link) for part in parts)
            raise not_found(
                "topic", f"topic {target_topic!r} is filled by link {filled_by}", parts[0].link
            )
        parts = tuple(part for part in parts if part.link == link.name)
        links = [link]
    elif parts:
        links = [_find_link(aggregate, part.link) for part in parts]
    else:
        raise _topics_unknown()
    for link in links:
        _require_loaded(aggregate, link)
    answers = [aggregate.maps.reverse(link.name, target_topic, partition, offset) for link in links]
    index = min(range(len(links)), key=lambda at: _REVERSE_ORDER.index(answers[at].state))
    answer = answers[index]
    if answer.topic is None and parts:
        _require_partition(parts[index], partition)
        answer = replace(answer, topic=parts[index].source_topic)
    request.app[METRICS].count_translation(answer.link, "reverse", answer.state.value)
    return web.json_response(views.translated_offset(answer))


@routes.get("/api/v1/groups/translate")
async def translate_group(request: web.Request) -> web.Response:
    """Translate the committed offsets of a group, of the source or of the aggregate."""
    query = request.query
    known = ("link", "group", "topic", "direction")
    parameters.check_names(query, known, repeated=("topic",))
    direction = parameters.one_of(query, "direction", DIRECTIONS)
    aggregate = request.app[AGGREGATE]
    link = _find_link(aggregate, parameters.text(query, "link"))
    group = parameters.text(query, "group")
    topics = frozenset(query.getall("topic")) if "topic" in query else None
    _require_loaded(aggregate, link)
    is_back = direction == TO_SOURCE
    cluster, side = (
        (aggregate.settings.aggregate, "aggregate") if is_back else (link.source, "source")
    )
    translate = aggregate.translate_group_back if is_back else aggregate.translate_group
    try:
        answer = await translate(link, group, topics)
    except TimeoutError as error:
        raise Problem(
            504,
            f"{side}_timeout",
            f"cluster {cluster} did not return the group's offsets within {GROUP_SECONDS_MAX:g} s",
        ) from error
    except KafkaError as error:
        raise Problem(
            502, f"{side}_error", f"cannot read the group's offsets from {cluster}: {error}"
        ) from error
    return web.json_response(views.group(answer))


@routes.get("/api/v1/lag")
async def get_lag(request: web.Request) -> web.Response:
    """Return the lag of the links, as their mirror workers report it."""
    parameters.check_names(request.query, ("link",))
    aggregate = request.app[AGGREGATE]
    links = _chosen_links(aggregate, request)
    return web.json_response(
        {"links": [views.lag(link.name, aggregate.link_lag(link.name)) for link in links]}
    )


@routes.get("/api/v1/workers")
async def get_workers(request: web.Request) -> web.Response:
    """Return what the mirror workers know of the links: troubles, rights, orders, groups."""
    parameters.check_names(request.query, ("link",))
    aggregate = request.app[AGGREGATE]
    links = _chosen_links(aggregate, request)
    return web.json_response({"links": [aggregate.link_state(link.name) for link in links]})


@routes.get("/api/v1/probe")
async def get_probe(request: web.Request) -> web.Response:
    """Return the results of the probes."""
    parameters.check_names(request.query, ("link",))
    aggregate = request.app[AGGREGATE]
    links = _chosen_links(aggregate, request)
    return web.json_response(views.probes(aggregate, links))


@routes.get("/api/v1/audit")
async def get_audit(request: web.Request) -> web.Response:
    """Return the audit of all links, a link, a topic or a partition."""
    query = request.query
    parameters.check_names(query, ("link", "topic", "partition", "since_ms"))
    aggregate = request.app[AGGREGATE]
    links = _chosen_links(aggregate, request)
    topic = parameters.text(query, "topic") if "topic" in query else None
    partition = parameters.partition(query) if "partition" in query else None
    since_ms = parameters.milliseconds(query, "since_ms") if "since_ms" in query else None
    documents, known = [], set()
    for link in links:
        try:
            audits = aggregate.link_audit(link.name)
        except MapFormatError as error:
            raise not_loaded(
                f"the map of link {link.name!r} is not readable: {error}",
                retry_after_seconds=int(REREAD_SECONDS),
            ) from error
        known |= {each.flow.source_topic for each in audits}
        wanted = [
            each
            for each in audits
            if topic in (None, each.flow.source_topic) and partition in (None, each.flow.partition)
        ]
        documents.append(
            aggregate.audit_document(link, wanted, with_rows=topic is not None, since_ms=since_ms)
        )
    if topic is not None and not any(document["partitions"] for document in documents):
        raise not_found(
            "topic", f"the audit has no topic {topic!r} or partition", nearest(topic, sorted(known))
        )
    return web.json_response({"bucket_ms": BUCKET_MS, "links": documents})


@routes.get("/api/v1/completeness")
async def get_completeness(request: web.Request) -> web.Response:
    """Return until when merged topics are complete: strict, fast, and per datacenter."""
    query = request.query
    parameters.check_names(query, ("topic", "late_ms"))
    aggregate = request.app[AGGREGATE]
    late_ms = parameters.milliseconds(query, "late_ms") if "late_ms" in query else LATE_MS
    parts = aggregate.completeness_parts()
    if parts is None:
        raise _topics_unknown()
    if "topic" in query:
        topic = parameters.text(query, "topic")
        if topic not in parts:
            raise not_found("topic", f"no merged topic {topic!r}", nearest(topic, sorted(parts)))
        parts = {topic: parts[topic]}
    document = completeness_document(
        parts, now_ms=aggregate.now_ms(), late_ms=late_ms, with_partitions="topic" in query
    )
    clocks = [each._asdict() for each in sorted(aggregate.clocks)]
    return web.json_response(
        {"aggregate": aggregate.settings.aggregate, **document, "clocks": clocks}
    )


def _chosen_links(aggregate: Aggregate, request: web.Request) -> list[LinkSettings]:
    """Return the link of parameter `link`, or all links."""
    if "link" not in request.query:
        return list(aggregate.settings.links)
    return [_find_link(aggregate, parameters.text(request.query, "link"))]


def _find_link(aggregate: Aggregate, name: str) -> LinkSettings:
    found = aggregate.settings.link(name)
    if found is None:
        known = [link.name for link in aggregate.settings.links]
        raise not_found("link", f"no link {name!r} feeds this aggregate", nearest(name, known))
    return found


def _require_loaded(aggregate: Aggregate, link: LinkSettings) -> None:
    status = aggregate.maps.topic(link.name)
    if status.state is TopicState.LOADING:
        raise not_loaded(
            f"the offset map of link {link.name!r} is still being read",
            retry_after_seconds=RETRY_AFTER_SECONDS,
        )
    if status.state is TopicState.FAILED:
        raise not_loaded(
            f"the offset map of link {link.name!r} is not readable: {status.problem}",
            retry_after_seconds=int(REREAD_SECONDS),
        )


def _find_mirrored(aggregate: Aggregate, link: LinkSettings, topic: str) -> MirroredTopic | None:
    """Return the link's copy of a topic; None if it is not known yet whether one exists."""
    catalog = aggregate.catalog()
    if catalog is None:
        return None
    part = catalog.part(link.name, topic)
    if part is None and aggregate.maps.topic(link.name).state is TopicState.READY:
        known = [name for name, merged in catalog.merged.items() if catalog.part(link.name, name)]
        raise not_found(
            "topic", f"link {link.name!r} mirrors no topic {topic!r} yet", nearest(topic, known)
        )
    return part


def _find_target(aggregate: Aggregate, target_topic: str) -> tuple[MirroredTopic, ...]:
    """Return the parts of an aggregate topic; empty while the topics are unknown."""
    catalog = aggregate.catalog()
    if catalog is None:
        return ()
    found = catalog.parts_of(target_topic)
    if not found:
        known = [part.topic for merged in catalog.merged.values() for part in merged.parts]
        raise not_found(
            "topic",
            f"the aggregate has no mirrored topic {target_topic!r}",
            nearest(target_topic, known),
        )
    return found


def _require_partition(part: MirroredTopic, partition: int) -> None:
    if part.partitions is not None and partition >= part.partitions:
        raise not_found(
            "partition",
            f"topic {part.topic!r} has partitions 0 to {part.partitions - 1}, not {partition}",
        )


def _topics_unknown() -> Problem:
    return not_loaded(
        "the topics of the aggregate are not known yet", retry_after_seconds=RETRY_AFTER_SECONDS
    )
