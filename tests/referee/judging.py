"""Gather the evidence of a deployment when all is quiet, and put it before the checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping

from tests.referee.admin import Admin
from tests.referee.audit_judging import judge_audit
from tests.referee.checks.copy import Fault, check_copy, check_foreign, foreign_faults
from tests.referee.checks.finding import Judgement, Promise
from tests.referee.checks.flow_truth import Evidence, FlowTruth
from tests.referee.checks.journal import check_journal
from tests.referee.checks.source import check_source
from tests.referee.content import may_be_doubled
from tests.referee.deployment import Deployment
from tests.referee.history import Flow, JournalEntry, Log, Partition, Written
from tests.referee.ledger import Ledger
from tests.referee.modes import State, copy_name, writers_of
from tests.referee.offset_judging import Sampler, Urls, judge_forward, judge_reverse
from tests.referee.plan import Plan
from tests.referee.position_judging import GroupJudge
from tests.referee.reading import read_logs, wait_without_open_transactions

SOURCE_COMPACTS = (State.COMPACTED, State.KEPT)
TARGET_COMPACTS = (State.COMPACTED,)
INTERNAL = "heliograph-"


class Judge:
    """Judges one deployment."""

    def __init__(
        self,
        plan: Plan,
        deployment: Deployment,
        admins: Mapping[str, Admin],
        urls: Urls,
        ledger: Ledger,
        standing_still: Collection[tuple[str, str | None, int | None]],
        offsets_max: int,
        say: Callable[[str], None],
    ) -> None:
        """`standing_still` are links, source topics and partitions of which the mirror says so."""
        self._plan = plan
        self._deployment = deployment
        self._admins = admins
        self._urls = urls
        self._ledger = ledger
        self._born = ledger.written()
        self._standing_still = standing_still
        self._offsets_max = offsets_max
        self._say = say

    def judge(self) -> Judgement:
        """Every check. Raises what reading raises."""
        judgement = Judgement()
        flows = list(self._flows(judgement))
        logs = self._read(flows)
        truths = self._truths(flows, logs, judgement)
        into: dict[Partition, list[FlowTruth]] = defaultdict(list)
        for truth in truths:
            judgement.add(check_source(truth, may_be_doubled))
            judgement.add(check_copy(truth))
            judgement.add(check_journal(truth))
            into[truth.flow.target].append(truth)
        foreign: dict[Partition, list[Fault]] = {}
        for target, merged in into.items():
            sources = {truth.flow.source for truth in merged}
            if target.cluster in self._writers(target.topic):
                sources.add(target)
            told = [entry for truth in merged for entry, _ in truth.entries]
            foreign[target] = list(foreign_faults(logs[target], self._born, sources, told))
            judgement.add(check_foreign(logs[target], foreign[target]))
        self._say(f"translating up to {self._offsets_max} offsets")
        ends = [truth.evidence.source.end_offset for truth in truths]
        ends += [logs[target].end_offset for target in into]
        sampler = Sampler(self._offsets_max, ends, self._plan.seed)
        judgement.add(judge_forward(self._urls, truths, sampler))
        judgement.add(judge_reverse(self._urls, into, sampler))
        self._say("comparing positions of groups and verdicts of the audit")
        groups = GroupJudge(self._plan, self._admins, logs, truths, self._born)
        judgement.add(groups.judge_targets())
        judgement.add(groups.judge_answers(self._urls))
        judgement.add(judge_audit(self._plan, self._urls, truths, foreign))
        return judgement

    def _flows(self, judgement: Judgement) -> Iterator[Flow]:
        """Every source partition with the partition that it should be copied to."""
        counts = {name: admin.partition_counts() for name, admin in self._admins.items()}
        for link in self._plan.shape.links:
            for topic in self._plan.topics:
                name = copy_name(self._plan.mode, link, topic.name)
                for number in range(counts[link.source].get(topic.name, 0)):
                    source = Partition(link.source, topic.name, number)
                    target = Partition(link.target, name, number)
                    if number < counts[link.target].get(name, 0):
                        yield Flow(link.name, source, target)
                    else:
                        text = f"{target} does not exist"
                        judgement.find(Promise.COPY, "missing", source, text)

    def _read(self, flows: list[Flow]) -> dict[Partition, Log]:
        partitions = {flow.source for flow in flows} | {flow.target for flow in flows}
        logs: dict[Partition, Log] = {}
        for name, admin in self._admins.items():
            places = sorted((p.topic, p.number) for p in partitions if p.cluster == name)
            wait_without_open_transactions(admin, places)
            logs |= read_logs(admin, name, places)
        return logs

    def _truths(
        self, flows: list[Flow], logs: Mapping[Partition, Log], judgement: Judgement
    ) -> list[FlowTruth]:
        written: dict[Partition, list[Written]] = defaultdict(list)
        for each in self._born.values():
            written[each.partition].append(each)
        journal: dict[tuple[str, str, int], list[JournalEntry]] = defaultdict(list)
        for entry in self._deployment.journal():
            journal[entry.link, entry.topic, entry.partition].append(entry)
        places = {flow: (flow.link, flow.source.topic, flow.source.number) for flow in flows}
        truths = [
            FlowTruth(
                Evidence(
                    flow=flow,
                    written=written[flow.source],
                    source=logs[flow.source],
                    target=logs[flow.target],
                    generation=self._ledger.generation(flow.source.cluster, flow.source.topic),
                    journal=journal.pop(places[flow], ()),
                    source_compacts=flow.source.topic in SOURCE_COMPACTS,
                    target_compacts=flow.source.topic in TARGET_COMPACTS,
                    target_deleted_to=self._deleted_to(flow.target),
                    stands_still=places[flow] in self._standing_still,
                )
            )
            for flow in flows
        ]
        for (link, topic, number), entries in journal.items():
            if topic.startswith(INTERNAL):
                continue  # about records of Heliograph's own
            text = f"{len(entries)} entries about a partition that the link does not copy"
            judgement.find(Promise.JOURNAL, "foreign", f"{link}: {topic}-{number}", text)
        return truths

    def _deleted_to(self, partition: Partition) -> int:
        place = partition.topic, partition.number
        return self._admins[partition.cluster].deleted_to.get(place, 0)

    def _writers(self, target_topic: str) -> tuple[str, ...]:
        """The clusters in which outside clients write to a topic of this name."""
        names = {topic.name: topic.state for topic in self._plan.topics}
        state = names.get(target_topic)
        return writers_of(self._plan.mode, state) if state is not None else ()
