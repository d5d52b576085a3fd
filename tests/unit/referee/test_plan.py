"""A seed plays the same again, and everything that was asked for."""

from __future__ import annotations

import pytest

from tests.referee.checks.finding import Judgement, Promise
from tests.referee.modes import SHAPES, LinkShape, Mode, State, copy_name, writers_of
from tests.referee.offset_judging import Sampler, room_for_each
from tests.referee.plan import BROKERS_MAX, Freeze, Kill, Overtake, System, make_plan
from tests.referee.report import as_json, figures_table, findings_text
from tests.referee.topology_file import Ports, topology_text

SEEDS = range(30)


@pytest.mark.parametrize("system", list(System))
@pytest.mark.parametrize("mode", list(Mode))
def test_plans_are_played_again_and_within_bounds(mode: Mode, system: System) -> None:
    for seed in SEEDS:
        plan = make_plan(mode, list(State), system, seed, 60.0)
        assert plan == make_plan(mode, list(State), system, seed, 60.0)
        assert sum(not each.is_external and each.brokers for each in plan.clusters) <= BROKERS_MAX
        assert all(each.brokers == 1 for each in plan.clusters if each.is_external)
        assert [topic.state for topic in plan.topics] == list(SHAPES[mode].states)
        assert plan.faults and all(0 < at < plan.load_seconds for at, _ in plan.faults)
        assert all(0 < at < plan.load_seconds for at, _ in plan.operations)
        assert any(isinstance(each, Overtake) for _, each in plan.operations)


def test_all_kinds_of_processes_are_killed_and_frozen() -> None:
    hit = set()
    for seed in SEEDS:
        for _, fault in make_plan(Mode.MERGE, list(State), System.OWN, seed, 60.0).faults:
            match fault:
                case Kill(victims):
                    hit |= {("kill", each.role) for each in victims}
                case Freeze(victim):
                    hit.add(("freeze", victim.role))
    roles = ("broker", "zookeeper", "mirror", "worker", "aggregator")
    assert hit == {(kind, role) for kind in ("kill", "freeze") for role in roles}


@pytest.mark.parametrize(
    ("system", "mode", "external"),
    [
        (System.OWN, Mode.MERGE, set()),
        (System.KAFKA_SOURCE, Mode.MERGE, {"a", "b"}),
        (System.KAFKA_TARGET, Mode.MERGE, {"hub"}),
        (System.KAFKA_BOTH, Mode.MERGE, {"a", "b", "hub"}),
        (System.KAFKA_SOURCE, Mode.PAIR, {"a"}),
        (System.KAFKA_TARGET, Mode.PAIR, {"b"}),
        (System.KAFKA_SOURCE, Mode.RING, {"a"}),
    ],
)
def test_which_clusters_are_kafkas(system: System, mode: Mode, external: set[str]) -> None:
    plan = make_plan(mode, list(State), system, 1, 60.0)
    assert {each.name for each in plan.clusters if each.is_external} == external


@pytest.mark.parametrize(
    ("mode", "topic", "copy"),
    [
        (Mode.PREFIXED, "plain", "a.plain"),
        (Mode.IDENTITY, "plain", "plain"),
        (Mode.MAP, "plain", "mapped.of-plain"),
        (Mode.MAP, "kept", "tables.kept.copy"),
        (Mode.MAP, "retention", "a.retention"),
        (Mode.MERGE, "plain", "plain"),
    ],
)
def test_what_copies_are_called(mode: Mode, topic: str, copy: str) -> None:
    assert copy_name(mode, LinkShape("a", "hub"), topic) == copy


def test_outside_clients_write_where_the_mode_says() -> None:
    assert writers_of(Mode.PREFIXED, State.PLAIN) == ("a", "b")
    assert writers_of(Mode.IDENTITY, State.PLAIN) == ("a", "hub")
    assert writers_of(Mode.IDENTITY, State.KEPT) == ("a",)
    assert writers_of(Mode.RING, State.PLAIN) == ("a", "b", "hub")


@pytest.mark.parametrize("mode", list(Mode))
def test_topology_files_name_every_cluster_and_link(mode: Mode) -> None:
    plan = make_plan(mode, list(State), System.KAFKA_SOURCE, 3, 60.0)
    ports = Ports(plan, range(20_000, 20_000 + Ports.count(plan)))
    text = topology_text(plan, ports, "referee", with_links=True)
    assert text.count("external:") == sum(each.is_external for each in plan.clusters)
    assert text.count("sync: true") == len(plan.shape.links)
    assert "links" not in topology_text(plan, ports, "referee", with_links=False)


def test_offsets_are_sampled_only_where_there_are_too_many() -> None:
    assert room_for_each([10, 20], 100) == 20
    assert room_for_each([10, 1_000, 1_000], 1_010) == 500
    sampler = Sampler(1_000, [50, 10_000], seed=1)
    assert list(sampler.offsets(50)) == list(range(52))
    sampled = list(sampler.offsets(10_000))
    assert {0, 1, 9_999, 10_000, 10_001} <= set(sampled)
    assert 900 < len(sampled) < 1_000


def test_a_report_has_every_figure_and_finding() -> None:
    judgement = Judgement()
    judgement.figures.update({"records compared": 7, "something else": 1})
    assert findings_text([]) == "no findings"
    for number in range(9):
        judgement.find(Promise.COPY, "lost", f"place {number}", "gone")
    text = findings_text(judgement.findings)
    assert "9 findings" in text and "place 4" in text and "place 5" not in text
    table = figures_table(judgement.figures)
    assert "records compared" in table and "something else" in table
    document = as_json({"seed": 1}, {"merge": judgement}, judgement)
    assert len(document["lives"]["merge"]["findings"]) == 9
