"""The supervisor's decisions without processes, and their invariants."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.deployment.deployment import Daemon
from topology.deployment.plan import is_link_edit
from topology.supervisor import reconcile
from topology.supervisor.reconcile import (
    RELOAD_S_MAX,
    RESTART_BACKOFF_FIRST_S,
    RESTART_BACKOFF_MAX_S,
    STABLE_AFTER_S,
    Order,
    Table,
    decide_orders,
    restart_backoff_s,
)


def daemon(key: str, *after: str, version: int = 1) -> Daemon:
    return Daemon(
        key=key,
        role="broker",
        label=key,
        argv=("run", key, str(version)),
        after=after,
        stop_grace_s=5.0,
    )


class World:
    """A table with simulated processes."""

    def __init__(self, *daemons: Daemon) -> None:
        self.table = Table()
        self.now_s = 100.0
        self.want(*daemons)

    def want(self, *daemons: Daemon) -> None:
        self.table.want(daemons, self.now_s)

    def step(self) -> list[tuple[str, Order]]:
        """Decide, and simulate that the orders were carried out."""
        self.table.forget_stopped()
        orders = decide_orders(self.table.rows, self.now_s)
        for key, order in orders:
            row = self.table.rows[key]
            if order == "start":
                row.apply_started(self.now_s)
            else:
                row.apply_order(order, self.now_s)
        return orders

    def ready(self, *keys: str) -> None:
        for key in keys:
            self.table.rows[key].apply_ready()

    def end(self, *keys: str, exit_code: int = 1) -> None:
        for key in keys:
            self.table.rows[key].apply_ended(self.now_s, exit_code)


def test_what_depends_on_another_waits_until_it_is_ready() -> None:
    world = World(daemon("zk"), daemon("b1", "zk"), daemon("b2", "zk"), daemon("m", "b1", "b2"))
    assert world.step() == [("zk", "start")]
    assert world.step() == []
    world.ready("zk")
    assert world.step() == [("b1", "start"), ("b2", "start")]
    world.ready("b1")
    assert world.step() == []
    world.ready("b2")
    assert world.step() == [("m", "start")]
    assert not world.table.is_settled
    world.ready("m")
    assert world.table.is_settled


def test_what_copes_with_anothers_absence_is_started_beside_it_and_stopped_before_it() -> None:
    world = World(daemon("zk"), replace(daemon("b", "zk"), waits_for="started"))
    assert world.step() == [("zk", "start")]
    assert world.step() == [("b", "start")]
    world.want()
    assert world.step() == [("b", "terminate")]
    world.end("b", exit_code=0)
    assert world.step() == [("zk", "terminate")]


def test_a_port_is_given_up_before_another_daemon_has_it() -> None:
    ports = (("127.0.0.1", 2181),)
    old, new = (replace(daemon(key), ports=ports) for key in ("zk", "zk.1"))
    world = World(old)
    world.step()
    world.want(new, daemon("zk.2"))
    assert world.step() == [("zk.2", "start"), ("zk", "terminate")]
    assert world.step() == []
    world.end("zk", exit_code=143)
    assert world.step() == [("zk.1", "start")]


def test_a_death_touches_nobody_else() -> None:
    world = World(daemon("zk"), daemon("b", "zk"))
    world.step()
    world.ready("zk")
    world.step()
    world.ready("b")
    world.end("zk", exit_code=-9)
    assert world.table.rows["zk"].phase == "restarting"
    assert world.table.rows["b"].phase == "running"
    world.now_s += RESTART_BACKOFF_FIRST_S
    assert world.step() == [("zk", "start")]


def test_a_restart_waits_for_its_delay_and_delays_grow_to_the_bound() -> None:
    world = World(daemon("a"))
    delays: list[float] = []
    for _ in range(12):
        assert world.step() == [("a", "start")]
        world.end("a")
        row = world.table.rows["a"]
        delays.append(row.start_after_s - world.now_s)
        world.now_s = row.start_after_s - 0.001
        assert world.step() == []
        world.now_s = row.start_after_s
    assert delays[:4] == [0.5, 1.0, 2.0, 4.0]
    assert delays[-1] == RESTART_BACKOFF_MAX_S
    assert delays == sorted(delays)


def test_a_daemon_that_ran_long_starts_with_the_first_delay_again() -> None:
    world = World(daemon("a"))
    for _ in range(3):
        world.step()
        world.end("a")
        world.now_s = world.table.rows["a"].start_after_s
    world.step()
    world.now_s += STABLE_AFTER_S
    world.end("a")
    row = world.table.rows["a"]
    assert (row.failures, row.restarts) == (1, 4)
    assert row.start_after_s - world.now_s == RESTART_BACKOFF_FIRST_S


def test_wanting_again_starts_what_waits_for_its_delay_at_once() -> None:
    world = World(daemon("a"))
    for _ in range(5):
        world.step()
        world.end("a")
        world.now_s = world.table.rows["a"].start_after_s
    world.step()
    world.end("a")
    assert world.step() == []
    world.want(daemon("a"))
    assert world.step() == [("a", "start")]


def test_a_changed_daemon_is_stopped_and_started_and_the_other_is_not() -> None:
    world = World(daemon("a"), daemon("b"))
    world.step()
    world.ready("a", "b")
    world.want(daemon("a", version=2), daemon("b"))
    assert world.step() == [("a", "terminate")]
    assert world.step() == []
    world.end("a", exit_code=0)
    row = world.table.rows["a"]
    assert (row.phase, row.restarts) == ("waiting", 0)
    assert world.step() == [("a", "start")]
    assert world.table.rows["b"].phase == "running"


def test_dependents_stop_first_and_the_deaf_are_killed() -> None:
    world = World(daemon("zk"), daemon("b", "zk"))
    world.step()
    world.ready("zk")
    world.step()
    world.want()
    assert world.step() == [("b", "terminate")]
    world.now_s += 4.9
    assert world.step() == []
    world.now_s += 0.1
    assert world.step() == [("b", "kill")]
    assert world.step() == []
    world.end("b", exit_code=-9)
    assert world.step() == [("zk", "terminate")]
    world.end("zk", exit_code=0)
    world.step()
    assert world.table.is_idle
    assert world.table.rows == {}


def test_wanted_again_while_it_stops_it_is_started_when_it_has_ended() -> None:
    world = World(daemon("a"))
    world.step()
    world.ready("a")
    world.want()
    assert world.step() == [("a", "terminate")]
    world.want(daemon("a"))
    assert world.step() == []
    world.end("a", exit_code=0)
    assert world.step() == [("a", "start")]


@pytest.mark.parametrize("failures", [1, 2, 10, 10_000])
def test_delays_are_bounded(failures: int) -> None:
    assert RESTART_BACKOFF_FIRST_S <= restart_backoff_s(failures) <= RESTART_BACKOFF_MAX_S


KEYS = ("zk", "b", "m")
AFTER = {"zk": (), "b": ("zk",), "m": ("b",)}
EVENTS = st.one_of(
    st.tuples(st.just("end"), st.sampled_from(KEYS)),
    st.tuples(st.just("ready"), st.sampled_from(KEYS)),
    st.tuples(st.just("pass"), st.floats(0.01, 40.0)),
    st.tuples(st.just("want"), st.dictionaries(st.sampled_from(KEYS), st.integers(1, 2))),
)


@given(st.lists(EVENTS, max_size=40))
def test_whatever_happens_the_wanted_daemons_run_in_the_end(
    events: list[tuple[str, object]],
) -> None:
    world = World()
    wanted: dict[str, int] = {}
    for kind, what in events:
        rows = world.table.rows
        match kind, what:
            case "end", str(key) if key in rows and rows[key].has_process:
                world.end(key)
            case "ready", str(key) if key in rows and rows[key].has_process:
                world.ready(key)
            case "pass", float(seconds):
                world.now_s += seconds
            case "want", dict(versions):
                wanted = {key: versions[key] for key in KEYS if key in versions}
                world.want(*_daemons(wanted))
        for key, order in world.step():
            _check_order(world, key, order)

    for _ in range(20):  # from here on everything starts and stops as it is told to
        world.now_s += RESTART_BACKOFF_MAX_S
        for key, row in list(world.table.rows.items()):
            if row.stop_asked_s is not None:
                world.end(key, exit_code=0)
            elif row.has_process:
                world.ready(key)
        world.step()
    assert world.table.is_settled
    running = {key: row.running for key, row in world.table.rows.items()}
    assert running == {each.key: each for each in _daemons(wanted)}


def _daemons(versions: dict[str, int]) -> list[Daemon]:
    return [daemon(key, *AFTER[key], version=version) for key, version in versions.items()]


def _check_order(world: World, key: str, order: Order) -> None:
    row = world.table.rows[key]
    if order == "start":
        assert row.wanted is not None and row.running == row.wanted
        for before in row.wanted.after:
            if before in world.table.rows:
                assert world.table.rows[before].has_process
    else:
        assert row.wanted is None or row.wanted != row.running


def worker(*links: str) -> Daemon:
    text = json.dumps({"links": list(links)})
    return replace(daemon("mirror"), role="mirror", files={"/m.json": text})


def reloading() -> World:
    world = World(worker("a"))
    world.step()
    world.ready("mirror")
    world.want(worker("a", "b"))
    assert world.step() == [("mirror", "reload")]
    return world


def test_edited_links_are_reloaded_once_and_the_process_stays() -> None:
    world = reloading()
    row = world.table.rows["mirror"]
    assert (world.step(), world.table.is_settled, row.must_stop) == ([], False, False)
    row.apply_reloaded()
    assert (world.step(), world.table.is_settled) == ([], True)
    assert row.running == worker("a", "b")


def test_links_edited_during_a_reload_are_reloaded_after_it() -> None:
    world = reloading()
    row = world.table.rows["mirror"]
    world.want(worker("c"))
    assert world.step() == []
    row.apply_reloaded()
    assert row.running == worker("a", "b")
    assert world.step() == [("mirror", "reload")]


def test_a_reload_parses_the_settings_of_its_worker_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Daemon] = []

    def counting(running: Daemon | None, wanted: Daemon) -> bool:
        asked.append(wanted)
        return is_link_edit(running, wanted)

    monkeypatch.setattr(reconcile, "is_link_edit", counting)
    world = reloading()
    for _ in range(100):
        assert world.step() == []
    assert asked == [worker("a", "b")]
    world.want(worker("c"))
    world.step()
    world.table.rows["mirror"].apply_reloaded()
    world.step()
    assert asked[1:] == [worker("c"), worker("c")]


def test_a_reload_that_is_not_confirmed_becomes_a_restart() -> None:
    world = reloading()
    world.now_s += RELOAD_S_MAX
    assert world.step() == [("mirror", "terminate")]
    world.table.rows["mirror"].apply_ended(world.now_s, 0)
    assert world.step() == [("mirror", "start")]
    world.ready("mirror")
    assert world.table.is_settled


def test_a_worker_that_starts_is_restarted_as_it_may_not_listen_yet() -> None:
    world = World(worker("a"))
    world.step()
    world.want(worker("a", "b"))
    assert world.step() == [("mirror", "terminate")]


def test_a_worker_that_ends_during_a_reload_starts_with_the_new_links() -> None:
    world = reloading()
    world.table.rows["mirror"].apply_ended(world.now_s, 1)
    world.now_s += RESTART_BACKOFF_FIRST_S
    assert world.step() == [("mirror", "start")]
    assert world.table.rows["mirror"].running == worker("a", "b")
    assert world.table.rows["mirror"].reloading is None
