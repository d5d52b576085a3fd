"""The next step of an ensemble to the members of the file."""

from __future__ import annotations

from topology.ensemble.growth_step import Done, Reconfigure, Refuse, Wait, decide
from topology.ensemble.members import Membership

WANTED = {1: "a", 2: "b", 3: "c"}
ALL = {1, 2, 3}
ONE = Membership(members={1: "a"}, version=4)


def test_nothing_is_known_of_an_ensemble_that_no_node_speaks_of() -> None:
    assert decide(WANTED, None, ALL) == Wait()


def test_all_new_nodes_become_members_at_once() -> None:
    step = Reconfigure(members=Membership(members=WANTED), from_version=4)
    assert decide(WANTED, ONE, ALL) == step


def test_it_waits_for_each_node_of_the_file_present_or_new() -> None:
    assert decide(WANTED, ONE, {1}) == Wait(nodes=(2, 3))
    assert decide({**WANTED, 4: "d", 5: "e"}, Membership(members=WANTED), {1, 2, 4, 5}) == Wait(
        nodes=(3,)
    )


def test_a_new_ensemble_gets_equal_weights() -> None:
    new = Membership(members=WANTED, version=1, is_weighted=True)
    step = decide(WANTED, new, ALL)
    assert isinstance(step, Reconfigure)
    assert not step.members.is_weighted


def test_an_ensemble_with_these_members_is_done_also_without_one_of_them() -> None:
    assert decide(WANTED, Membership(members=WANTED, version=9), {1, 2}) == Done()


def test_it_never_removes_a_member() -> None:
    step = decide({1: "a"}, Membership(members=WANTED, version=9), ALL)
    assert step == Refuse(reason="the ensemble has node 2, 3, and the file does not")
