"""Every record once, in order, byte for byte; the journal has exactly the missing ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import Record
from mirror_maker.formats import Gap
from mirror_maker.formats.gaps import GapKind
from tests.sim.cluster.names import Anomaly
from tests.sim.mirror_product.evidence import Copies, Evidence, LinkEvidence, SourceLog
from tests.sim.mirror_product.writing import name_of


def judge_records(evidence: Evidence) -> dict[tuple[str, TopicPartition], list[Copies]]:
    """Return the copies of every source partition of every link, by incarnation.

    Raises Anomaly.
    """
    found: dict[tuple[str, TopicPartition], list[Copies]] = {}
    for link in evidence.links:
        for at, incarnations in link.sources.items():
            log = link.target_logs.get(link.copy_of(at), {})
            found[link.link.name, at] = [_copies_of(log, each, link) for each in incarnations]
            _check_order(found[link.link.name, at], link)
            for copies in found[link.link.name, at]:
                _check_missing(copies, link)
                _check_lost(copies, link)
                _check_copied(copies, link)
        _check_foreign(link, evidence.intruded)
    _check_nothing_else(evidence)
    return found


def _copies_of(log: Mapping[int, Record], source: SourceLog, link: LinkEvidence) -> Copies:
    sources = source.offsets_by_name()
    places = []
    for offset, copy in log.items():
        name = name_of(copy)
        if name is None or name not in sources:
            continue
        original = source.records[sources[name]]
        if copy[1:] != original[1:]:
            raise Anomaly(f"{link.link.name}: altered: {original} became {copy}")
        places.append((original.offset, offset))
    return Copies(source, tuple(places), dict(places))


def _check_order(incarnations: list[Copies], link: LinkEvidence) -> None:
    """Check the order on the target: by source offset, and one incarnation after the other."""
    before = -1
    for copies in incarnations:
        offsets = [source for source, _ in copies.places]
        twice = [offset for offset, count in Counter(offsets).items() if count > 1]
        if twice:
            raise Anomaly(f"{link.link.name} {copies.source.at}: {twice[:5]} are copied twice")
        if offsets != sorted(offsets):
            raise Anomaly(f"{link.link.name} {copies.source.at}: out of order: {copies.places}")
        if copies.places:
            if copies.places[0][1] <= before:
                raise Anomaly(f"{link.link.name} {copies.source.at}: incarnations are mixed")
            before = copies.places[-1][1]


def _covers(gap: Gap, offset: int) -> bool:
    return gap.source_from <= offset and (gap.source_to is None or offset < gap.source_to)


def _check_missing(copies: Copies, link: LinkEvidence) -> None:
    """Check that every missing record was lost by the source before it could be copied, and is in
    the
    journal. Compaction is no loss: it leaves the last record of each key."""
    source = copies.source
    flow = link.flow(source)
    opening = None if flow is None else link.map_topic.opening(flow)
    lost = link.entries(source, GapKind.LOST)
    for offset in source.records:
        if offset in copies.by_source or offset in source.compacted:
            continue
        where = f"{link.link.name} {source.at} offset {offset}"
        if offset not in source.gone:
            raise Anomaly(f"{where} is not on the target")
        if opening is None and source.is_deleted:
            continue  # nobody ever copied this topic
        if opening is not None and _starts_behind(link, source, offset):
            continue
        if not any(_covers(gap, offset) for gap in lost):
            raise Anomaly(f"{where} is lost, but not in the journal")


def _starts_behind(link: LinkEvidence, source: SourceLog, offset: int) -> bool:
    """Return whether the flow was opened after an offset, which the source had lost by then."""
    flow = link.flow(source)
    assert flow is not None
    offset_map = link.map_topic.offset_map(flow)
    assert offset_map is not None
    return offset < offset_map.source_start


def _check_lost(copies: Copies, link: LinkEvidence) -> None:
    """Check that offsets lost by the journal have no copy, are gone, and lie where the entry says.

    If a `copied` entry has the same offsets, nobody knows which of them were copied.
    """
    holes = link.entries(copies.source, GapKind.COPIED)
    for gap in link.entries(copies.source, GapKind.LOST):
        told = f"{link.link.name}: {gap}"
        for source, target in copies.places:
            if any(_covers(hole, source) for hole in holes):
                continue
            if _covers(gap, source):
                raise Anomaly(f"offset {source} is on the target, but lost by the journal: {told}")
            if (source < gap.source_from) != (target < gap.target_offset):
                raise Anomaly(f"{source} -> {target} is on the wrong side of {told}")
        for offset in copies.source.records:
            if _covers(gap, offset) and offset not in copies.source.gone:
                raise Anomaly(f"offset {offset} is at the source, but lost by the journal: {told}")


def _check_copied(copies: Copies, link: LinkEvidence) -> None:
    """Check the counts and bounds of copies whose single places nobody knows."""
    flow = link.flow(copies.source)
    offset_map = None if flow is None else link.map_topic.offset_map(flow)
    lost = link.entries(copies.source, GapKind.LOST)
    for gap in link.entries(copies.source, GapKind.COPIED):
        told = f"{link.link.name}: {gap}"
        assert offset_map is not None, told
        assert gap.target_to is not None, told
        inside = [source for source, _ in copies.places if _covers(gap, source)]
        there = [
            source
            for source, target in copies.places
            if gap.target_offset <= target < gap.target_to
        ]
        if gap.source_to is not None and inside != there:
            raise Anomaly(f"{inside} of the source, {there} on the target: {told}")
        # Records that the source still has are placed, and not counted.
        gone = [offset for offset in there if offset in copies.source.gone]
        unknown = [o for o in there if offset_map.source_of(copies.by_source[o]) is None]
        if gap.copied_count is None or not len(unknown) <= gap.copied_count <= len(gone):
            raise Anomaly(f"of {there} {unknown} are not mapped and {gone} gone: {told}")
        missing = [
            offset
            for offset in copies.source.records
            if _covers(gap, offset)
            and offset < max(there, default=0)
            and offset not in copies.by_source
            and offset not in copies.source.compacted
            and not any(_covers(each, offset) for each in lost)
        ]
        if missing:
            raise Anomaly(f"{missing} come before some of {there}: {told}")


def _check_foreign(link: LinkEvidence, intruded: frozenset[bytes]) -> None:
    """Check that the journal has every record that an intruder wrote into a copy, and no other."""
    for at, log in link.target_logs.items():
        there = {offset for offset, each in log.items() if name_of(each) in intruded}
        told = {
            offset
            for gap in link.journal.all_entries()
            if gap.kind is GapKind.FOREIGN and (gap.target_topic, gap.flow.partition) == at
            for offset in range(gap.target_offset, gap.target_to or 0)
        }
        if told != (set() if link.link.is_shared else there):
            raise Anomaly(
                f"{link.link.name}: {at} has {there} of intruders, in the journal are {told}"
            )


def _check_nothing_else(evidence: Evidence) -> None:
    """Check that every record of a copy was written by a link that copies into it, by clients of
    the
    topic, or by an intruder in the journal."""
    for at_target in {(link.target.name, at) for link in evidence.links for at in link.target_logs}:
        cluster, at = at_target
        links = [
            link
            for link in evidence.links
            if link.target.name == cluster and at in link.target_logs
        ]
        known = {
            name
            for link in links
            for source, incarnations in link.sources.items()
            if link.copy_of(source) == at
            for each in incarnations
            for name in each.offsets_by_name()
        }
        native = evidence.native.get(cluster, {}).get(at, frozenset())
        seen: Counter[bytes] = Counter()
        for offset, record in links[0].target_logs[at].items():
            name = name_of(record)
            if name is None or name not in known | native | evidence.intruded:
                raise Anomaly(f"{cluster} {at}: nobody may write {record}")
            seen[name] += 1
            if seen[name] > 1:
                raise Anomaly(f"{cluster} {at}: {name!r} is there twice, again at {offset}")
        for name in native:
            if not seen[name]:
                raise Anomaly(f"{cluster} {at}: {name!r} of a client is gone")
