"""A link with a filter and transforms: exactly once, killed anywhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from local_cluster.client.model import FetchedPartition, FetchPosition, TopicPartition
from local_cluster.records.batch import NewRecord, Record
from local_cluster.records.header import BatchHeader
from local_cluster.wire.errors import ErrorCode
from mirror_maker.copy.batch_selection import CopyPath
from mirror_maker.rules.rule_settings import (
    Condition,
    HeaderValue,
    JsonTest,
    KeyTest,
    RecordFilter,
    Transform,
)
from tests.sim.kafka_double.client import SimClient
from tests.sim.mirror.scenarios import SOME_OR_EVERY_STEP, chaos, kill_at_every_step
from tests.sim.mirror.world import MirrorWorld, SimWorker, SourceWriter
from tests.sim.virtual_time import run_virtually

RULES: dict[str, Any] = {
    "filter": RecordFilter(
        keep=(
            Condition(value=JsonTest(json="/k", equals="order")),
            Condition(key=KeyTest(matches="k.*[02468]")),
        ),
        drop=(Condition(header="n", matches=".*5"),),
    ),
    "transform": (
        Transform(set_header=HeaderValue(name="from", value="a")),
        Transform(drop_header="n"),
        Transform(drop_field="/s"),
        Transform(mask_field="/c"),
    ),
}


class JsonWriter(SourceWriter):
    """Most values are JSON of two kinds; short, as the base class needs for batches with holes."""

    def _records(self, count: int | None = None) -> list[NewRecord]:
        return [self._with_json(each) for each in super()._records(count)]

    def _with_json(self, record: NewRecord) -> NewRecord:
        if record.value is None or self.random.random() < 0.2:
            return record
        document = {
            "k": self.random.choice(("order", "test", "test")),
            "s": 1,
            "i": self.serial,
            "c": 2,
        }
        return record._replace(value=json.dumps(document).encode())


def _copied(record: Record) -> Record | None:
    """Apply RULES to a record, in another implementation."""
    if any(name == "n" and (value or b"").endswith(b"5") for name, value in record.headers):
        return None
    value, kind = record.value, None
    if value is not None and value.startswith(b"{"):
        document = json.loads(value)
        kind = document["k"]
        del document["s"]
        document["c"] = "***"
        value = json.dumps(document, separators=(",", ": ")).encode()
    if kind != "order" and not (record.key is not None and int(record.key[1:]) % 2 == 0):
        return None
    return record._replace(value=value, headers=(("from", b"a"),))


class RulesWorld(MirrorWorld):
    def __init__(self, seed: int, partitions: int = 1) -> None:
        super().__init__(seed, partitions)
        self.link_settings = RULES
        self.writers = [
            JsonWriter(self.source.partition(at), Random(self.random.getrandbits(32)))
            for at in self.partitions
        ]

    def expected(self, at: TopicPartition) -> list[Record]:
        return list(self._expected(at))

    def _expected(self, at: TopicPartition) -> Iterator[Record]:
        for record in super().expected(at):
            copied = _copied(record)
            if copied is not None:
                yield copied

    def check_everything(self) -> None:
        """Check everything, and that the journal has no gap for records left out."""
        super().check_everything()
        for at in self.partitions:
            assert not self.gaps(at)
            every = self.writers[self.partitions.index(at)].expected
            assert 0 < len(self.expected(at)) < len(every)


def _check_rules_were_applied(worker: SimWorker) -> None:
    batches = worker.flows[0].totals().batches
    assert batches[CopyPath.RULES] == sum(batches.values()) > 8


@SOME_OR_EVERY_STEP
@pytest.mark.parametrize(
    ("seed", "batches"), [(2, 12), pytest.param(1, 25, marks=pytest.mark.long)]
)
def test_killed_at_every_step_with_a_filter_and_transforms(
    seed: int, batches: int, stride: int
) -> None:
    kill_at_every_step(
        lambda: RulesWorld(seed),
        batches=batches,
        batches_later=batches // 2,
        check_undisturbed=_check_rules_were_applied,
        stride=stride,
    )


@pytest.mark.parametrize("seed", range(8), ids=lambda seed: f"seed-{seed}")
def test_chaos_with_a_filter_and_transforms(seed: int) -> None:
    """Lost and late messages, kills, two workers at once, a target with small batches."""

    def refuse_large(at: TopicPartition, header: BatchHeader) -> ErrorCode | None:
        is_large = at.topic.startswith("a.") and header.records_count > 2
        return ErrorCode.message_too_large if is_large else None

    async def scenario() -> None:
        world = RulesWorld(seed, partitions=2)
        if seed % 2:
            world.target.refuse = refuse_large
        await chaos(world, Random(seed), batches=60, batches_per_turn_max=40)

    run_virtually(scenario())


def test_the_source_is_read_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that opens megabytes of records at once is late for its heartbeats."""
    asked: set[int] = set()
    read = SimClient._read

    def noting(
        self: SimClient,
        node_id: int,
        at: TopicPartition,
        position: FetchPosition,
        bytes_max: int,
        *,
        committed_only: bool = True,
    ) -> FetchedPartition:
        if at.topic == "t":
            asked.add(bytes_max)
        return read(self, node_id, at, position, bytes_max, committed_only=committed_only)

    monkeypatch.setattr(SimClient, "_read", noting)

    async def scenario() -> None:
        world = RulesWorld(3)
        world.limits = replace(world.limits, rules_fetch_bytes_max=500)
        world.write(20)
        first = await world.worker("w")
        while "a.t" not in world.target.topics or not world.copies(world.partitions[0]):
            await asyncio.sleep(0.01)
        await first.kill()
        second = await world.worker("w")  # it also pairs what is not mapped yet
        await world.settle(second)
        world.check_everything()
        await second.stop()

    run_virtually(scenario())
    assert asked == {500}
