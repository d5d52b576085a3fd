"""The audit of a deployment's links: published verdicts, or both logs record by record. Shell.

It reads from the clusters, so it works without workers and aggregators. A cluster that does not
respond within `RESPONSE_TIMEOUT_S` is an error that names it.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final

from aggregator.audit.audit_document import link_document
from aggregator.audit.link_audit import PartitionAudit, link_audit
from local_cluster.client.client import KafkaClient
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats import MapFormatError
from topology.audit.published import LinkState, read_link
from topology.audit.question import (
    AuditQuestion,
    AuditUnreadable,
    JsonObject,
    Progress,
    UnknownName,
    is_asked,
)
from topology.audit.records import RecordsReader, target_ranges
from topology.deployment.deployment import Deployment
from topology.problems import unknown_name
from topology.status.liveness import RESPONSE_TIMEOUT_S, ClusterSilent, require_clusters

CLIENT_ID: Final = "heliograph-audit"


def read_audit(
    deployment: Deployment, question: AuditQuestion, *, now_ms: int, progress: Progress
) -> list[JsonObject]:
    """Return one document per link. Raises AuditUnreadable, UnknownName."""
    return asyncio.run(_read(deployment, question, now_ms, progress))


async def _read(
    deployment: Deployment, question: AuditQuestion, now_ms: int, progress: Progress
) -> list[JsonObject]:
    named = [link for link in deployment.links if link.name == question.name]
    links = named or list(deployment.links)
    names = dict.fromkeys(name for link in links for name in (link.source, link.target))
    clusters = [deployment.cluster(name) for name in names]
    try:
        await require_clusters(clusters)
    except ClusterSilent as error:
        raise AuditUnreadable(str(error)) from error
    async with AsyncExitStack() as stack:
        clients = {
            cluster.name: await stack.enter_async_context(
                KafkaClient(
                    cluster.bootstrap,
                    client_id=CLIENT_ID,
                    request_timeout_ms=int(RESPONSE_TIMEOUT_S * 1000),
                    security=cluster.security,
                )
            )
            for cluster in clusters
        }
        states = []
        for link in links:
            progress(f"reading what link {link.name} published on {link.target}")
            states.append(await read_link(link, clients[link.source], clients[link.target]))
        topic = None if named else question.name
        if topic is not None:
            _check_topic(topic, deployment, states)
        documents = []
        for state in states:
            document = _document(deployment, state, topic, question.since_ms, now_ms)
            if topic is not None and not document["partitions"]:
                continue
            if question.with_records:
                source, target = clients[state.view.source], clients[state.view.target]
                try:
                    targets = await target_ranges(state, target)
                except KafkaError as error:
                    raise AuditUnreadable(f"link {state.view.name}, its copies: {error}") from error
                now = await read_link(state.view, source, target)
                reader = RecordsReader(
                    deployment, now, targets, clients, question.since_ms, progress
                )
                document["records_read"] = await reader.read(topic)
            documents.append(document)
    return documents


def _check_topic(topic: str, deployment: Deployment, states: list[LinkState]) -> None:
    """Check that a link mirrors this topic. Raises UnknownName."""
    topics = {
        name
        for state in states
        for flow, target_topic, _ in state.flows()
        for name in (flow.source_topic, target_topic)
    }
    if topic not in topics:
        known = [*(link.name for link in deployment.links), *sorted(topics)]
        raise UnknownName(unknown_name("link or mirrored topic", topic, known))


def _document(
    deployment: Deployment,
    state: LinkState,
    topic: str | None,
    since_ms: int | None,
    now_ms: int,
) -> JsonObject:
    try:
        audits: list[PartitionAudit] = link_audit(
            state.map, state.verdicts, state.journal, state.target_ids, state.source_ends
        )
    except MapFormatError as error:
        raise AuditUnreadable(f"link {state.view.name}, its map: {error}") from error
    source = deployment.cluster(state.view.source)
    return link_document(
        {
            "link": state.view.name,
            "datacenter": source.datacenter,
            "source": source.name,
            "target": state.view.target,
        },
        [each for each in audits if is_asked(topic, each.flow, each.target_topic)],
        state.verdicts.auditors,
        problem=None,
        now_ms=now_ms,
        with_rows=True,
        since_ms=since_ms,
    )
