"""Why a link does not copy a topic. Pure.

The order is that of the mirror: which topics a link selects, then what stops a selected one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mirror_maker.formats.mm2 import is_heartbeats_topic
from mirror_maker.link.topic_plan import colliding_topics, link_topics
from mirror_maker.rules.topic_filter import is_internal_topic
from topology.problems import nearest_name
from topology.why.cluster_causes import disk_causes, partition_causes
from topology.why.facts import Cause, LinkFacts, lag_words
from topology.why.link_causes import is_paused, is_stopped, stopped_cause, whole_link
from topology.why.pattern_misses import matching, near_miss

LIMITS: Final = ("max.message.bytes",)
NAMES_SHOWN_MAX: Final = 5


def explain_topic(link: LinkFacts, topic: str) -> list[Cause]:
    """Return why a link does not copy a topic of its source; [] if it does."""
    settings = link.settings
    origin = settings.names.source_topic(settings.source_alias, topic)
    if origin is not None and topic not in link.source.topics and origin in link.source.topics:
        is_copy = f"{topic} is the copy of {origin} by link {link.name}"
        return [Cause("is_copy", is_copy, is_fault=False), *explain_topic(link, origin)]
    unselected = [*_not_selected(link, topic)]
    if unselected:
        return unselected
    causes = [*whole_link(link)]
    if link.source.silent is None:
        causes += _at_source(link, topic)
        if any(cause.code == "unknown_topic" for cause in causes):
            return [cause for cause in causes if cause.is_fault]
    if is_paused(link, topic):
        causes.append(
            Cause(
                "paused",
                f"an operator has paused topic {topic} of link {link.name}",
                f"`heliograph mirror resume --link {link.name} --topic {topic}`",
            )
        )
    else:
        causes += [stopped_cause(link, flow) for flow in link.flows(topic) if is_stopped(flow)]
    if link.target.silent is None:
        causes += _at_target(link, topic)
    if not any(cause.is_fault for cause in causes):
        causes += _nothing_wrong(link, topic)
    return causes


def _not_selected(link: LinkFacts, topic: str) -> Iterator[Cause]:
    settings = link.settings
    if link_topics(settings, link.target_alias).selects(topic):
        return
    if is_internal_topic(topic):
        yield Cause(
            "internal_name",
            f"links never copy internal topics: names that begin with `__` or `.`, or end with"
            f" `-internal` or `.internal`, such as {topic}",
            "rename the topic",
        )
        return
    excluded = matching(settings.topics_exclude, topic)
    included = matching(settings.topics, topic)
    if included is not None and excluded is not None:
        yield Cause(
            "excluded",
            f"{included!r} includes {topic}, and `exclude` has {excluded!r}",
            f"remove {excluded!r} from `topics: {{exclude: ...}}` of link {link.name}",
        )
    elif included is not None:
        yield Cause(
            "came_from_target",
            f"the name {topic} says that it came from {link.target_alias}: copied back, it would"
            " make a loop",
            "copy the original topic to where it is needed",
        )
    elif is_heartbeats_topic(topic):
        yield Cause("heartbeats_off", "`mm2_topics` is off", "set `settings: {mm2_topics: ...}`")
    else:
        near = near_miss(settings.topics, topic)
        yield Cause(
            "not_included",
            f"no pattern of link {link.name} matches {topic}{f': {near}' if near else ''}",
            f"add it to `topics` of link {link.name}, and run `heliograph up`",
        )


def _at_source(link: LinkFacts, topic: str) -> Iterator[Cause]:
    found = link.source.topics.get(topic)
    if found is None or found.error == "UNKNOWN_TOPIC_OR_PARTITION":
        near = nearest_name(topic, link.source.topics)
        hint = f"; did you mean {near!r}?" if near else ""
        gone = next(iter(_deleted(link, topic)), None)
        if gone is not None:
            yield gone
        yield Cause(
            "unknown_topic",
            f"{link.source.name} has no topic {topic}, or does not show it to this user{hint}",
            "create it, or grant DESCRIBE on it",
        )
        return
    if found.error is not None:
        yield Cause(
            "right_missing",
            f"{link.source.name} answers {found.error} for {topic}",
            "grant DESCRIBE and READ on it to the mirror's principal",
        )
    if found.is_internal:
        yield Cause("kafka_internal", f"{topic} belongs to Kafka itself, and is never copied")
    yield from partition_causes(link.source, topic, found)


def _deleted(link: LinkFacts, topic: str) -> Iterator[Cause]:
    for each in ((link.worker or {}).get("deletions") or {}).get("gone") or ():
        if each["topic"] == topic:
            yield Cause(
                "deleted",
                f"{topic} was deleted at {link.source.name}; its copy {each['copy']} is"
                f" {each['fate']}{': ' + each['reason'] if each['reason'] else ''}",
            )


def _at_target(link: LinkFacts, topic: str) -> Iterator[Cause]:
    copy = link.settings.copy_name(topic)
    selects = link_topics(link.settings, link.target_alias).selects
    names = [name for name in link.source.topics if selects(name)]
    others = [
        name
        for name in colliding_topics(names, link.settings.copy_name).get(copy, [])
        if name != topic
    ]
    if others:
        yield Cause(
            "name_collision",
            f"the copies of {topic} and {', '.join(others[:NAMES_SHOWN_MAX])} have the same name,"
            f" {copy}",
            "give one of them another name with `names: {map: ...}`",
        )
    found = link.target.topics.get(copy)
    source = link.source.topics.get(topic)
    if found is None or found.error == "UNKNOWN_TOPIC_OR_PARTITION":
        yield Cause(
            "copy_missing",
            f"{link.target.name} has no topic {copy} yet, or does not show it to this user",
            "grant CREATE and DESCRIBE to the mirror's principal, if its worker runs for long",
        )
        return
    if found.error is not None:
        yield Cause(
            "right_missing",
            f"{link.target.name} answers {found.error} for {copy}",
            "grant DESCRIBE and WRITE on it to the mirror's principal",
        )
    if source is not None and len(found.partitions) < len(source.partitions):
        yield Cause(
            "copy_too_narrow",
            f"the copy {copy} has {len(found.partitions)} partitions, the source has"
            f" {len(source.partitions)}",
            "grant ALTER on the copy to the mirror's principal, or `heliograph topic alter`",
        )
    yield from partition_causes(link.target, copy, found)
    yield from disk_causes(link.target)


def _nothing_wrong(link: LinkFacts, topic: str) -> Iterator[Cause]:
    copy = link.settings.copy_name(topic)
    flows = link.flows(topic)
    if not flows:
        yield Cause(
            "not_discovered",
            f"no partition of {topic} is copied by the worker of this deployment: it was created"
            " seconds ago, or a worker on another host copies it",
            is_fault=False,
        )
        return
    lags = [flow["lag_records"] for flow in flows]
    ages = [flow["lag_seconds"] for flow in flows]
    records = None if None in lags else sum(lags)
    seconds = None if None in ages else max(ages)
    yield Cause(
        "copied",
        f"{topic} is copied into {copy}, {lag_words(records, seconds)}",
        is_fault=False,
        lag_seconds=seconds,
    )
    if link.settings.origin == "local":
        yield Cause(
            "origin_local",
            f"`origin: local` leaves out records that a mirror wrote into {topic}",
            is_fault=False,
        )
    if link.settings.terms.get("records"):
        yield Cause("filtered", "`filter` or `transform` changes what is copied", is_fault=False)
