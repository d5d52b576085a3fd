"""Check the source cluster itself: what it acknowledged is in its final log. Pure.

A mirror can only be judged on a source that keeps its own promises. So a finding here is one of
the broker. Read findings about the copies of that partition with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.referee.checks.finding import Judgement, Promise
from tests.referee.checks.flow_truth import FlowTruth
from tests.referee.history import Fate


def check_source(
    truth: FlowTruth, may_be_doubled: Callable[[str], bool] = lambda identity: False
) -> Judgement:
    """Compare the final source log with the delivery reports of its last generation.

    `may_be_doubled` knows by the identity whether its producer may have written it twice.
    """
    judgement = Judgement()
    evidence = truth.evidence
    where = truth.flow.source
    start_offset = evidence.source.start_offset

    def find(kind: str, text: str) -> None:
        judgement.find(Promise.SOURCE, kind, where, text)

    born = [each for each in evidence.source.records if each.identity in truth.written]
    for record in born:
        written = truth.written[record.identity or ""]
        told = f"{written.identity} at offset {record.offset}"
        if written.fate is Fate.NEVER:
            find("aborted", f"{told} is readable, and its transaction was aborted")
        if written.generation != truth.generation:
            find("foreign", f"{told} was written before the topic was re-created")
        places = {each.offset for each in truth.originals_of(written.identity)}
        if written.offset is not None and written.offset not in places:
            find("moved", f"{told} was acknowledged at offset {written.offset}")
        if written.content != record.content:
            find("altered", f"{told} was sent as {written.content}, is {record.content}")
    counts = Counter(record.identity for record in born)
    for identity, count in counts.items():
        if count > 1 and may_be_doubled(identity or ""):
            judgement.figures["source records doubled by a producer that gave up"] += count - 1
        elif count > 1:
            find("doubled", f"{identity} is there {count} times")
    for original in truth.originals:
        is_expected = original.is_readable and original.generation == truth.generation
        if not is_expected or original.is_in_log or original.offset < start_offset:
            continue
        if not (evidence.source_compacts and truth.may_be_cleaned(original)):
            find("lost", f"{original.identity} was acknowledged at offset {original.offset}")
    judgement.figures["source records"] += len(born)
    return judgement
