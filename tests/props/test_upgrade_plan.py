"""Hosts that take turns, the operator who stops, continues and goes back, and kills of either.

A host is its version; its turn may be killed at every yield. The lock is modelled as ZooKeeper has
it: it ends with whoever holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from topology.upgrade.upgrade_plan import (
    Change,
    NotNow,
    UpgradePlan,
    back,
    begin,
    decode_plan,
    encode_plan,
    end,
    fail,
    finalize,
    give_back,
    stop,
    take,
)

STEPS_MAX = 80
HOSTS = ("a", "b", "c")
PROCESSES = 2


@dataclass
class World:
    content: bytes | None = None
    holder: str | None = None
    versions: dict[str, list[str]] = field(
        default_factory=lambda: {name: ["1"] * PROCESSES for name in HOSTS}
    )
    is_sick: bool = False
    """Whether something is not in sync."""

    @property
    def plan(self) -> UpgradePlan | None:
        return None if self.content is None else decode_plan(self.content)

    def change(self, change: Change) -> UpgradePlan:
        after = change(self.plan)
        self.content = encode_plan(after)
        return after

    def turn(self, host: str) -> Iterator[None]:
        """The turn of a host, as turn.py carries it out."""
        own = {host}
        plan = self.plan
        if self.holder is not None or plan is None or not plan.is_turn_of(own):
            return
        self.holder = host
        plan = self.change(take(own))
        yield
        for process in range(PROCESSES):
            now = self.plan
            assert now is not None
            if now.number != plan.number:
                return
            if now.is_stopped:
                self.change(give_back(own, plan.number, "stopped"))
                return
            if self.is_sick:
                self.change(fail(own, plan.number, "sick"))
                return
            self.versions[host][process] = plan.wanted
            yield
        try:
            self.change(end(own, plan.number))
        except NotNow:
            return

    def operator(self, word: str) -> Change:
        match word:
            case "begin" | "other":
                wanted = "2" if word == "begin" else "3"
                here = self.versions[HOSTS[0]]
                former = next((each for each in here if each != wanted), "")
                return begin(wanted, former, HOSTS, timeout_s=1.0, by="x", at="now")
            case "back":
                return back(timeout_s=1.0, by="x", at="now")
            case "finalize":
                return finalize(self.plan.wanted if self.plan is not None else "2")
        return stop


WORDS = ("begin", "begin", "other", "back", "stop", "finalize")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_hosts_go_in_order_and_one_at_a_time(data: st.DataObject) -> None:
    world = World()
    turns: dict[str, Iterator[None]] = {}
    for _ in range(data.draw(st.integers(1, STEPS_MAX))):
        before = world.plan
        match data.draw(st.sampled_from(["operator", "step", "step", "step", "kill", "sick"])):
            case "operator":
                word = data.draw(st.sampled_from(WORDS))
                try:
                    after = world.change(world.operator(word))
                except NotNow:
                    assert world.plan == before
                else:
                    check_operator(word, before, after, world)
            case "step":
                host = data.draw(st.sampled_from(HOSTS))
                if next(turns.setdefault(host, world.turn(host)), "over") == "over":
                    del turns[host]
                    if world.holder == host:
                        world.holder = None
            case "kill":
                host = data.draw(st.sampled_from(HOSTS))
                turns.pop(host, None)
                if world.holder == host:
                    world.holder = None
            case "sick":
                world.is_sick = not world.is_sick
        check(world)
    settle(world)


def check(world: World) -> None:
    plan = world.plan
    if plan is None:
        return
    states = [each.state for each in plan.hosts]
    begun = len([each for each in states if each in ("in_turn", "failed")])
    assert begun <= 1
    first_not_done = next((i for i, each in enumerate(states) if each != "done"), len(states))
    assert all(each == "waiting" for each in states[first_not_done + 1 :]), "out of order"
    for host in plan.hosts:
        if host.state == "done":
            assert set(world.versions[host.name]) == {plan.wanted}
    mixed = {each for versions in world.versions.values() for each in versions}
    assert len(mixed) <= 2, "a third version came before the second was final"
    assert decode_plan(encode_plan(plan)) == plan


def check_operator(word: str, before: UpgradePlan | None, after: UpgradePlan, world: World) -> None:
    if word == "back":
        assert before is not None and not before.is_final, "nothing final goes back"
    if word == "finalize":
        found = {each for versions in world.versions.values() for each in versions}
        assert found == {after.wanted}, "final before every process ran it"
    if word == "other" and before is not None and after.number != before.number:
        returns = before.is_back and before.former == "3"
        assert before.is_settled or returns


def settle(world: World) -> None:
    """Everything ends well, or is final, once nothing is killed and nobody interferes."""
    world.is_sick, world.holder = False, None
    plan = world.plan
    if plan is None:
        return
    # As people do: continue what was begun.
    if plan.state in ("failed", "stopped"):
        onward = begin(plan.wanted, "", HOSTS, timeout_s=1.0, by="x", at="now")
        world.change(back(timeout_s=1.0, by="x", at="now") if plan.is_back else onward)
    for _ in HOSTS:
        for host in HOSTS:
            list(world.turn(host))
            world.holder = None
    plan = world.plan
    assert plan is not None and plan.state in ("done", "final")
