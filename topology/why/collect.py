"""Collects the facts about the links of a deployment: reports, clusters, maps and journals."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

from aggregator.maps.link_map import TopicIds
from local_cluster.client.auth.security import SecurityError
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicMetadata, TopicPartition
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats.gaps import gap_as_json
from mirror_maker.settings import LinkSettings, MirrorSettings, parse_settings
from topology.admin.cluster_reading import known_offsets, log_dirs
from topology.audit.published import LinkState, read_link
from topology.audit.question import AuditUnreadable
from topology.coordinators.group_reading import describe_group, list_all_groups
from topology.deployment.deployment import ClusterView, Deployment, LinkView
from topology.mirror.worker_http import get
from topology.problems import DeployError
from topology.status.liveness import RESPONSE_TIMEOUT_S, ClusterSilent, describe_cluster
from topology.status.process_http import CallFailed
from topology.why.facts import (
    ClusterFacts,
    GroupLag,
    LinkFacts,
    PartitionFacts,
    RecordFacts,
    TopicFacts,
)
from topology.why.record_fate import record_facts

EARLIEST, LATEST = -2, -1
CLIENT_ID = "heliograph-why"
CONFIGS_MAX = 2_000
"""Topics whose configs are read; those of others are unknown."""


class Question(NamedTuple):
    """What the facts are for."""

    topics: frozenset[str] = frozenset()
    """Topics of the sources whose offsets and configs matter."""
    group: str | None = None
    """A group whose state and lag matter; with None, no group is read."""
    record: tuple[str, int, int] | None = None
    """Topic, partition, offset."""


class Facts(NamedTuple):
    """A link, and the record that was asked about."""

    link: LinkFacts
    record: RecordFacts | None


def collect(
    deployment: Deployment,
    status: Mapping[str, Any],
    links: Sequence[LinkView],
    question: Question,
) -> list[Facts]:
    """Return the facts about links. `status` is the status document. Raises DeployError."""
    return asyncio.run(_collect(deployment, status, links, question))


async def _collect(
    deployment: Deployment,
    status: Mapping[str, Any],
    links: Sequence[LinkView],
    question: Question,
) -> list[Facts]:
    mirrors = {link.name: _mirror_settings(deployment, link) for link in links}
    settings = {link.name: _link_settings(mirrors[link.name], link) for link in links}
    names = dict.fromkeys(name for link in links for name in (link.source, link.target))
    wanted = question.topics | ({question.record[0]} if question.record else frozenset())
    copies = {each.copy_name(topic) for each in settings.values() for topic in wanted}
    origins = {
        origin
        for each in settings.values()
        for topic in wanted
        for origin in (each.names.source_topic(each.source_alias, topic),)
        if origin is not None
    }
    async with AsyncExitStack() as stack:
        clients: dict[str, KafkaClient] = {}
        clusters: dict[str, ClusterFacts] = {}
        for name in names:
            view = deployment.cluster(name)
            clients[name] = await stack.enter_async_context(client_of(view))
        found = await asyncio.gather(
            *(
                cluster_facts(
                    deployment.cluster(name),
                    clients[name],
                    wanted | copies | origins,
                    group=question.group,
                )
                for name in names
            )
        )
        clusters = dict(zip(names, found, strict=True))
        return [
            await _facts(
                deployment,
                status,
                link,
                (mirrors[link.name], settings[link.name]),
                clusters,
                clients,
                question,
            )
            for link in links
        ]


async def _facts(
    deployment: Deployment,
    status: Mapping[str, Any],
    link: LinkView,
    settings: tuple[MirrorSettings, LinkSettings],
    clusters: Mapping[str, ClusterFacts],
    clients: Mapping[str, KafkaClient],
    question: Question,
) -> Facts:
    row = next(each for each in status["links"] if each["name"] == link.name)
    logs = {each["key"]: each.get("log") for each in status["daemons"]}
    facts = LinkFacts(
        settings=settings[1],
        target_alias=settings[0].target_alias,
        source=clusters[link.source],
        target=clusters[link.target],
        state=row["state"],
        reason=row["reason"],
        worker=_worker(deployment, link),
        log=logs.get(link.daemon),
    )
    record = None
    if question.record is not None and not (facts.source.silent or facts.target.silent):
        try:
            state = await read_link(link, clients[link.source], clients[link.target])
        except AuditUnreadable as error:
            raise DeployError(str(error)) from error
        record = _record(state, question.record)
    return Facts(facts, record)


def _worker(deployment: Deployment, link: LinkView) -> Mapping[str, Any] | None:
    try:
        reports = get(deployment, link.name, "status")["links"]
    except CallFailed:
        return None
    return next((each for each in reports if each["name"] == link.name), None)


def _mirror_settings(deployment: Deployment, link: LinkView) -> MirrorSettings:
    """Return the settings that the link's worker runs with."""
    (text,) = deployment.daemon(link.daemon).files.values()
    return parse_settings(text)


def _link_settings(mirror: MirrorSettings, link: LinkView) -> LinkSettings:
    return next(each for each in mirror.links if each.name == link.name)


def client_of(view: ClusterView) -> KafkaClient:
    """Return a client that waits `RESPONSE_TIMEOUT_S` for each response."""
    return KafkaClient(
        view.bootstrap,
        client_id=CLIENT_ID,
        request_timeout_ms=int(RESPONSE_TIMEOUT_S * 1000),
        security=view.security,
    )


async def cluster_facts(
    view: ClusterView,
    client: KafkaClient,
    topics: Collection[str] | None,
    *,
    group: str | None = None,
) -> ClusterFacts:
    """Return the facts about a cluster, or why it is silent.

    Configs and offsets are those of the named topics; for None, configs of all of them. With a
    group, the facts have every group, and the lag of this one.
    """
    try:
        await describe_cluster(view, RESPONSE_TIMEOUT_S)
        found = await client.metadata(None)
        names = list(found.topics) if topics is None else [*found.topics.keys() & set(topics)]
        configs = await client.ask_topic_configs(names[:CONFIGS_MAX]) if names else {}
        places = [
            TopicPartition(name, index)
            for name in (names if topics is not None else ())
            for topic in (found.topics[name],)
            for index, part in topic.partitions.items()
            if part.leader >= 0
        ]
        starts = await known_offsets(client, places, EARLIEST)
        ends = await known_offsets(client, places, LATEST)
        listed = [] if group is None else await list_all_groups(client)
        groups = {str(each["group"]): str(each["state"]) for each in listed}
        lags: dict[str, GroupLag] = {}
        if group is not None and group in groups:
            lags[group] = await _group_lag(client, group)
        return ClusterFacts(
            name=view.name,
            brokers=frozenset(found.brokers),
            topics={
                name: _topic(topic, configs.get(name), starts, ends)
                for name, topic in found.topics.items()
            },
            groups=groups,
            group_lags=lags,
            log_dirs=await _log_dirs(client, found.brokers),
        )
    except (ClusterSilent, SecurityError) as error:
        return ClusterFacts(name=view.name, silent=str(error))
    except KafkaError as error:
        return ClusterFacts(name=view.name, silent=f"cluster {view.name}: {error}")


def _topic(
    topic: TopicMetadata,
    configs: Any,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> TopicFacts:
    described = configs if isinstance(configs, Mapping) else {}
    return TopicFacts(
        partitions={
            index: PartitionFacts(
                part.leader if part.leader >= 0 else None,
                part.replicas,
                part.isr,
                starts.get(TopicPartition(topic.name, index)),
                ends.get(TopicPartition(topic.name, index)),
            )
            for index, part in topic.partitions.items()
        },
        is_internal=topic.is_internal,
        error=topic.error.name.upper() if topic.error else None,
        configs={name: value for name, (value, _) in described.items()},
    )


async def _group_lag(client: KafkaClient, group: str) -> GroupLag:
    """Return the lag that `heliograph group describe` shows; unknown without an answer."""
    try:
        found = await describe_group(client, group)
    except (DeployError, KafkaError):
        return GroupLag(None, None)
    return GroupLag(found["lag"], found["lag_seconds"])


async def _log_dirs(
    client: KafkaClient, brokers: Iterable[int]
) -> tuple[tuple[int, str, str | None, int | None], ...]:
    """Return the log directories of brokers that answer; others, or without the right, none."""
    found = []
    for broker in brokers:
        try:
            directories, _ = await log_dirs(client, broker)
        except KafkaError:
            continue
        found += [
            (broker, each["log_dir"], each["error"], each["usable_bytes"]) for each in directories
        ]
    return tuple(found)


def _record(state: LinkState, at: tuple[str, int, int]) -> RecordFacts:
    topic, partition, _ = at
    ids: TopicIds = state.target_ids
    flows = [
        (target, offsets)
        for flow, target, offsets in state.map.current_flows(ids)
        if (flow.source_topic, flow.partition) == (topic, partition)
    ]
    target_topic, offsets = flows[0] if flows else (None, None)
    gaps = [gap_as_json(each) for each in state.journal.partition_gaps(topic, partition)]
    return record_facts(at, target_topic, offsets, gaps)
