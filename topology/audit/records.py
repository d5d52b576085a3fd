"""Both logs of a link's partitions, compared record by record. Shell."""

from __future__ import annotations

from collections.abc import Mapping

from aggregator.audit.log_audit import LogRange, log_ranges
from aggregator.audit.record_audit import RecordAudit, RecordRules
from aggregator.audit.record_reader import audit_records
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.compress import CompressionError
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import FlowKey, OffsetMap
from mirror_maker.formats.gaps import GapKind
from mirror_maker.rules.gap_ranges import GapRanges
from mirror_maker.rules.rule_settings import RecordFilter
from mirror_maker.settings import LinkSettings, parse_settings
from topology.audit.document import records_document
from topology.audit.published import LinkState
from topology.audit.question import AuditUnreadable, JsonObject, Progress, is_asked
from topology.deployment.deployment import Deployment, LinkView

Ranges = Mapping[TopicPartition, LogRange]
"""The offsets to read of each copy's log."""


async def target_ranges(state: LinkState, target: KafkaClient) -> Ranges:
    """Return the offsets that the copies' logs hold now. Raises KafkaError.

    The mirror may map or journal some of them only after this call. So the caller reads the link's
    state again afterwards.
    """
    topics = {target_topic for _, target_topic, _ in state.flows()}
    return {
        log.at: log
        for topic in sorted(topics)
        for log in (await log_ranges(target, topic)).values()
    }


class RecordsReader:
    """Reads both logs of a link's partitions and compares them."""

    def __init__(
        self,
        deployment: Deployment,
        state: LinkState,
        targets: Ranges,
        clients: Mapping[str, KafkaClient],
        since_ms: int | None,
        progress: Progress,
    ) -> None:
        self._state = state
        self._targets = targets
        self._settings = _link_settings(deployment, state.view)
        self._source = clients[state.view.source]
        self._target = clients[state.view.target]
        self._since_ms = since_ms
        self._progress = progress

    async def read(self, topic: str | None) -> list[JsonObject]:
        """Return one document per partition. Raises AuditUnreadable."""
        documents = []
        found = [each for each in self._state.flows() if is_asked(topic, each[0], each[1])]
        for flow, target_topic, offset_map in sorted(found, key=lambda each: each[0]):
            self._progress(
                f"link {self._state.view.name}: reading both logs of"
                f" {flow.source_topic}-{flow.partition}"
            )
            audit = await self._prepare(flow, target_topic, offset_map)
            problem = None
            try:
                await self._read(audit, flow, target_topic, offset_map)
            except (KafkaError, CorruptRecordError, CompressionError) as error:
                problem = str(error)  # the other partitions are still read
            documents.append(records_document(flow, target_topic, audit.findings, problem))
        return documents

    async def _read(
        self, audit: RecordAudit, flow: FlowKey, target_topic: str, offset_map: OffsetMap
    ) -> None:
        target_log = self._targets.get(TopicPartition(target_topic, flow.partition))
        source_log = await self._source_log(flow)
        if self._since_ms is not None and source_log is not None:
            source_log = await self._from_time(source_log)
            start = offset_map.next_mapped(source_log.start)
            if target_log is not None:
                begin = target_log.end if start is None else max(target_log.start, start[1])
                target_log = target_log._replace(start=begin)
        await audit_records(audit, self._source, source_log, self._target, target_log)

    async def _source_log(self, flow: FlowKey) -> LogRange | None:
        """Return the source's log; None if the topic was re-created: it has no copies here."""
        topic = (await self._source.metadata([flow.source_topic])).topics.get(flow.source_topic)
        if topic is None or topic.topic_id not in (flow.source_topic_id, None):
            return None
        return (await log_ranges(self._source, flow.source_topic)).get(flow.partition)

    async def _prepare(
        self, flow: FlowKey, target_topic: str, offset_map: OffsetMap
    ) -> RecordAudit:
        entries = [
            each
            for each in self._state.journal.partition_entries(flow.source_topic, flow.partition)
            if each.flow == flow
        ]
        log = self._targets.get(TopicPartition(target_topic, flow.partition))
        try:
            rules = await self._rules(flow, target_topic)
        except KafkaError as error:
            raise AuditUnreadable(
                f"link {self._state.view.name}, {target_topic}: {error}"
            ) from error
        return RecordAudit(
            offset_map,
            rules,
            lost=GapRanges(
                (each.source_from, each.source_from if each.source_to is None else each.source_to)
                for each in entries
                if each.kind is GapKind.LOST
            ),
            foreign=GapRanges(
                (each.target_offset, each.target_to or 0)
                for each in entries
                if each.kind is GapKind.FOREIGN
            ),
            target_log_start=0 if log is None else log.start,
            target_log_end=0 if log is None else log.end,
        )

    async def _from_time(self, log: LogRange) -> LogRange:
        assert self._since_ms is not None
        listed = (await self._source.list_offsets({log.at: self._since_ms}))[log.at]
        if listed.error:
            raise KafkaError(listed.error, str(log.at))
        return log._replace(start=log.end if listed.offset < 0 else max(log.start, listed.offset))

    async def _rules(self, flow: FlowKey, target_topic: str) -> RecordRules:
        settings = self._settings.for_topic(flow.source_topic)
        configs = (await self._target.describe_topic_configs([target_topic])).get(target_topic, {})
        leaves_out = None
        if settings.filter != RecordFilter():
            leaves_out = "the link has a filter, which may exclude it"
        elif settings.origin == "local":
            leaves_out = "the link copies only records that were produced at its source"
        producer_id = self._state.map.producer_id(flow)
        if producer_id is None:
            raise KafkaError(ErrorCode.unknown_producer_id, f"no opening of {target_topic}")
        return RecordRules(
            producer_id=producer_id,
            is_shared=settings.names.is_shared(flow.source_topic)
            or settings.on_unmapped_target == "append",
            is_compacted="compact" in (configs.get("cleanup.policy", (None, True))[0] or ""),
            leaves_out=leaves_out,
            is_rewritten=(configs.get("message.timestamp.type", (None, True))[0] or "CreateTime")
            != "CreateTime",
            is_transformed=bool(settings.transform),
        )


def _link_settings(deployment: Deployment, link: LinkView) -> LinkSettings:
    """Return the settings of the link's worker."""
    for text in deployment.daemon(link.daemon).files.values():
        for each in parse_settings(text).links:
            if each.name == link.name:
                return each
    raise AuditUnreadable(f"link {link.name} has no settings in this deployment")
