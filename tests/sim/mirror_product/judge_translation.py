"""Translation of every offset, both ways, compared with the two logs.

Exact: a reader that continues there gets exactly the next source record of the link. Inexact: never
later than that, and only if the journal says why.
"""

from __future__ import annotations

from mirror_maker.formats import Gap, OffsetMap, TranslationState
from mirror_maker.formats.gaps import GapKind
from tests.sim.cluster.names import Anomaly
from tests.sim.mirror_product.evidence import Copies, LinkEvidence


def judge_translation(link: LinkEvidence, copies: Copies) -> None:
    """Judge one incarnation of one source partition. Raises Anomaly."""
    source = copies.source
    flow = link.flow(source)
    if flow is None:
        if copies.places:
            raise Anomaly(f"{link.link.name} {source.at}: copies without an opening")
        return
    offset_map = link.map_topic.offset_map(flow)
    assert offset_map is not None, flow
    holes = link.entries(source, GapKind.COPIED)
    where = f"{link.link.name} {source.at} of {source.topic_id}"
    _check_runs(offset_map, copies, holes, where)
    _check_forward(offset_map, copies, holes, where)
    _check_backward(offset_map, copies, holes, where)


def _is_in(holes: list[Gap], offset: int) -> bool:
    return any(
        gap.source_from <= offset and (gap.source_to is None or offset < gap.source_to)
        for gap in holes
    )


def _check_runs(offset_map: OffsetMap, copies: Copies, holes: list[Gap], where: str) -> None:
    """Check that the runs are exactly the places of the copies."""
    mapped = [
        (run.source_offset + n, run.target_offset + n)
        for run in offset_map.runs()
        for n in range(run.records_count)
    ]
    known = set(mapped)
    places = set(copies.places)
    if not known <= places:
        raise Anomaly(f"{where}: mapped, but not there: {sorted(known - places)[:5]}")
    unknown = [place for place in copies.places if place not in known]
    unexplained = [place for place in unknown if not _is_in(holes, place[0])]
    if unexplained:
        raise Anomaly(f"{where}: copied, but not mapped: {unexplained[:5]}")


def _check_forward(offset_map: OffsetMap, copies: Copies, holes: list[Gap], where: str) -> None:
    records = copies.source.records
    last = max(records, default=-1)
    for offset in range(copies.source.end + 2):
        answer = offset_map.translate(offset)
        told = f"{where}: offset {offset} translates as {answer}"
        following, before = copies.first_from(offset), copies.last_before(offset)
        match answer.state:
            case TranslationState.PENDING:
                # The uncopied records of a deleted topic are never known.
                is_open = copies.source.is_deleted and offset > offset_map.source_next
                if offset <= last + 1 and not is_open:
                    raise Anomaly(f"{told}, though everything is copied")
                continue
            case TranslationState.INEXACT:
                if not _is_in(holes, offset):
                    raise Anomaly(f"{told}, though no copies are without a source there")
                if answer.target_offset is None:
                    raise Anomaly(f"{told}: it has no place")
        place = answer.target_offset
        assert place is not None
        if following is not None and place > following[1]:
            raise Anomaly(f"{told}, which passes over {following}")
        if answer.state is TranslationState.EXACT:
            if before is not None and place <= before[1]:
                raise Anomaly(f"{told}, where {before} is read again")
            if before is not None and place != before[1] + 1:
                raise Anomaly(f"{told}, which is not the smallest place behind {before}")
        greatest = offset_map.place_from(offset).target_offset
        if greatest is not None and following is not None and greatest > following[1]:
            raise Anomaly(f"{told}: the greatest place {greatest} passes over {following}")


def _check_backward(offset_map: OffsetMap, copies: Copies, holes: list[Gap], where: str) -> None:
    sources = {target: source for source, target in copies.places}
    for target in range(max(sources, default=0) + 3):
        told = offset_map.source_of(target)
        is_unknown = target in sources and _is_in(holes, sources[target])
        if told != sources.get(target) and not (told is None and is_unknown):
            raise Anomaly(f"{where}: target {target} is {sources.get(target)}, told as {told}")
        place = offset_map.source_place(target)
        late = [(s, t) for s, t in copies.places if s < place and t >= target]
        if late:
            raise Anomaly(f"{where}: target {target} stands at source {place}, but {late[:3]}")
        following = next((s for s, t in copies.places if t >= target), None)
        if following is not None and place < following and not holes:
            raise Anomaly(f"{where}: target {target} stands at {place}, {following} comes next")
