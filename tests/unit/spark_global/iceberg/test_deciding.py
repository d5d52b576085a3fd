"""Every record once, whatever writers, answers and commits do: a model of the catalogue."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from local_cluster.client.model import TopicPartition
from spark_global.iceberg.deciding import Verdict, decide_commit
from spark_global.iceberg.table_state import TableState, Writer
from spark_global.streaming.positions import StreamPositions

AT = TopicPartition("jfk.a", 0)


def at(offset: int) -> StreamPositions:
    return StreamPositions(topic_ids={"jfk.a": ""}, offsets={AT: offset})


@dataclass
class Staged:
    """A commit on its way: it succeeds only on the snapshot that it is based on."""

    base_snapshot: int
    after: TableState
    rows: range


@dataclass
class Run:
    """A writer, as long as its process lives. It may be paused for any time."""

    writer: Writer
    snapshot: int
    known: TableState
    batch: tuple[int, int] | None = None
    is_stopped: bool = False
    in_flight: list[Staged] = field(default_factory=list)


class Catalogue(RuleBasedStateMachine):
    """Writers come and go, answers are lost, commits arrive late; the rows stay exact."""

    def __init__(self) -> None:
        super().__init__()
        self.state = TableState(view="v", positions=at(0), complete={})
        self.snapshot = 0
        self.rows: list[int] = []
        self.runs: list[Run] = []

    def apply(self, staged: Staged) -> bool:
        if staged.base_snapshot != self.snapshot:
            return False
        self.snapshot += 1
        self.state = staged.after
        self.rows += staged.rows
        return True

    @rule()
    def take_over(self) -> None:
        epoch = 0 if self.state.writer is None else self.state.writer.epoch
        writer = Writer(epoch + 1, f"run{len(self.runs)}")
        after = replace(self.state, writer=writer)
        assert self.apply(Staged(self.snapshot, after, range(0)))
        self.runs.append(Run(writer, self.snapshot, after))

    @rule(data=st.data(), count=st.integers(1, 9))
    def plan(self, data: st.DataObject, count: int) -> None:
        """A writer plans a batch from the positions that it knows; the old one must be done."""
        run = self.pick(data)
        if run is not None and run.batch is None:
            start = run.known.positions.offsets[AT]
            run.batch = start, start + count

    @rule(data=st.data())
    def check_and_send(self, data: st.DataObject) -> None:
        """A writer checks the base that it knows, and sends a commit that may take any time."""
        run = self.pick(data)
        if run is None or run.batch is None:
            return
        start, end = run.batch
        match decide_commit(run.known, run.writer, at(start), at(end)):
            case Verdict.COMMIT:
                after = replace(run.known, positions=at(end))
                run.in_flight.append(Staged(run.snapshot, after, range(start, end)))
            case Verdict.DONE:
                run.batch = None
            case Verdict.REPLACED | Verdict.MOVED:
                run.is_stopped = True

    @rule(data=st.data(), is_answered=st.booleans())
    def arrive(self, data: st.DataObject, is_answered: bool) -> None:
        """A commit arrives, perhaps after its writer is dead; the answer may be lost."""
        flying = [run for run in self.runs if run.in_flight]
        if not flying:
            return
        run = data.draw(st.sampled_from(flying))
        staged = run.in_flight.pop(data.draw(st.integers(0, len(run.in_flight) - 1)))
        if self.apply(staged) and is_answered:
            run.snapshot, run.known, run.batch = self.snapshot, staged.after, None

    @rule(data=st.data())
    def reload(self, data: st.DataObject) -> None:
        run = self.pick(data)
        if run is not None:
            run.snapshot, run.known = self.snapshot, self.state

    @rule()
    def others_commit(self) -> None:
        """A compaction: a new snapshot with the same state."""
        self.snapshot += 1

    def pick(self, data: st.DataObject) -> Run | None:
        alive = [run for run in self.runs if not run.is_stopped]
        return data.draw(st.sampled_from(alive)) if alive else None

    @invariant()
    def every_record_is_there_once(self) -> None:
        assert self.rows == list(range(self.state.positions.offsets[AT]))


TestCatalogue = Catalogue.TestCase


def test_verdicts() -> None:
    mine, other = Writer(2, "mine"), Writer(3, "other")
    base = TableState(view="v", writer=mine, positions=at(10), complete={})
    assert decide_commit(base, mine, at(10), at(20)) is Verdict.COMMIT
    assert decide_commit(base, mine, at(0), at(10)) is Verdict.DONE
    assert decide_commit(base, mine, at(5), at(20)) is Verdict.MOVED
    assert decide_commit(base, mine, at(10), at(10)) is Verdict.COMMIT
    assert decide_commit(base, other, at(10), at(20)) is Verdict.REPLACED
    assert decide_commit(base, other, at(0), at(10)) is Verdict.REPLACED
    assert decide_commit(base, Writer(2, "other"), at(10), at(20)) is Verdict.REPLACED
