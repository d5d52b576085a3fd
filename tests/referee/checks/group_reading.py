"""What a group has read, by its positions at the sources. Pure.

It has read what lies before its position in any source partition, whether the record was born
there or copied to there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tests.referee.checks.flow_truth import FlowTruth
from tests.referee.checks.groups import IsRead
from tests.referee.checks.translation import ForwardCheck
from tests.referee.history import Log, Partition

ComesTo = Callable[[str, str], bool]
"""Whether some link brings the record of an identity to a cluster."""


def reads(
    truths: Sequence[FlowTruth],
    committed: Mapping[Partition, int],
    logs: Mapping[Partition, Log],
    comes_to: ComesTo,
    born: Collection[str],
) -> IsRead:
    """Whether a group that stands at these positions has read a record, by its identity.

    `truths` are all flows into one target partition, `committed` the group's positions in their
    source partitions, as far as it has some. `born` are the identities of all records of outside
    producers to the sources and to topics that several write.
    """
    by_source = {truth.flow.source: truth for truth in truths}
    seen = {
        source: {record.identity: record.offset for record in logs[source].records}
        for source in committed
    }

    def is_read(identity: str) -> bool | None:
        if identity not in born:
            return None  # of an intruder, whose records no link brings to a group
        for source, truth in by_source.items():
            if identity in truth.written:
                return _is_read_where_it_was_born(truth, identity, committed.get(source))
        verdicts = [
            _is_read_as_copy(by_source[source], seen[source].get(identity), at)
            for source, at in committed.items()
            if comes_to(identity, source.cluster)
        ]
        if True in verdicts:
            return True
        return None if None in verdicts else False

    return is_read


def need_only_be_safe(
    truths: Sequence[FlowTruth],
    committed: Mapping[Partition, int],
    holed: Collection[Partition],
    *,
    is_shared: bool,
) -> bool:
    """Whether a position may lie before records that the group has read.

    It may if a flow is stopped, and in a hole of the map. In a partition of several origins it also
    may in three cases: unread records may be gone; the group has no position at one of the sources;
    a map into the target or a source has any hole (`holed`).
    """
    if any(truth.evidence.stands_still for truth in truths):
        return True
    for truth in truths:
        at = committed.get(truth.flow.source)
        if at is not None and any(entry.is_hole_at(at) for entry in truth.current_holes):
            return True
    evidence = truths[0].evidence
    may_have_lost = evidence.target_compacts or evidence.target.start_offset > 0
    is_partial = any(truth.flow.source not in committed for truth in truths)
    partitions = {truths[0].flow.target, *committed}
    return is_shared and (may_have_lost or is_partial or not partitions.isdisjoint(holed))


def may_be_missing(truths: Sequence[FlowTruth], committed: Mapping[Partition, int]) -> bool:
    """Whether a position may have no translation, as that part of the map may be gone."""
    return any(
        ForwardCheck(truth).may_be_pending(committed[truth.flow.source])
        for truth in truths
        if truth.flow.source in committed
    )


def _is_read_where_it_was_born(
    truth: FlowTruth, identity: str, position: int | None
) -> bool | None:
    if position is None:
        return False
    originals = truth.originals_of(identity)
    return originals[0].offset < position if len(originals) == 1 else None


def _is_read_as_copy(truth: FlowTruth, offset: int | None, position: int) -> bool | None:
    """Of a record that was born elsewhere, by its offset in the source log, if it is there."""
    if offset is not None:
        return offset < position
    may_be_gone = truth.evidence.source_compacts or truth.evidence.source.start_offset > 0
    return None if may_be_gone else False
