"""Everything that must hold in the end."""

from __future__ import annotations

from local_cluster.client.model import TopicPartition
from tests.sim.cluster.names import Anomaly
from tests.sim.mirror_product.evidence import Copies, Evidence, LinkEvidence
from tests.sim.mirror_product.judge_audit import judge_audit
from tests.sim.mirror_product.judge_records import judge_records
from tests.sim.mirror_product.judge_translation import judge_translation


def judge(evidence: Evidence) -> int:
    """Return how many copies there are. Raises Anomaly for the first broken promise."""
    found = judge_records(evidence)
    for link in evidence.links:
        unread = link.link.copies.keys() - {at.topic for at in link.sources}
        if unread:
            raise Anomaly(f"{link.link.name}: {unread} are nowhere at the source")
        for at in link.sources:
            incarnations = found[link.link.name, at]
            _judge_flow(link, at, incarnations)
    return sum(len(each.places) for copies in found.values() for each in copies)


def _judge_flow(link: LinkEvidence, at: TopicPartition, incarnations: list[Copies]) -> None:
    if not incarnations:
        raise Anomaly(f"{link.link.name} {at}: nothing is known of it")
    for copies in incarnations:
        judge_translation(link, copies)
    judge_audit(link, incarnations[-1])
