"""Which replicas the next fetch from a leader is for."""

from __future__ import annotations

from local_cluster.replication.follower.fetch_states import FetchStates

ONE, TWO = "one", "two"


def followed(*replicas: str) -> FetchStates[str]:
    states: FetchStates[str] = FetchStates()
    for replica in replicas:
        states.add(replica)
    return states


def test_a_replica_is_changed_until_a_fetch_has_looked_at_it() -> None:
    states = followed(ONE, TWO)
    assert list(states.changed) == [ONE, TWO]
    states.clear_changed()
    assert list(states.changed) == []
    assert list(states.followed) == [ONE, TWO]
    assert states.is_ready(ONE), "an idle replica is part of a full fetch"
    states.mark_changed([TWO])
    assert list(states.changed) == [TWO]


def test_a_delayed_replica_is_changed_after_its_delay() -> None:
    states = followed(ONE, TWO)
    states.clear_changed()
    states.delay(ONE, 5.0)
    states.delay(TWO, 3.0)
    assert (states.is_ready(ONE), states.next_end_of_delay()) == (False, 3.0)
    states.end_delays(3.0)
    assert (states.is_ready(ONE), states.is_ready(TWO)) == (False, True)
    assert states.next_end_of_delay() == 5.0
    assert list(states.changed) == [TWO]
    states.end_delays(6.0)
    assert (states.is_ready(ONE), states.next_end_of_delay()) == (True, None)


def test_a_failed_replica_is_ready_when_it_is_added_again() -> None:
    states = followed(ONE)
    states.mark_failed(ONE)
    states.end_delays(1e9)
    assert not states.is_ready(ONE)
    assert states.next_end_of_delay() is None
    states.add(ONE)
    assert states.is_ready(ONE)


def test_a_removed_replica_is_forgotten_in_every_state() -> None:
    states = followed(ONE)
    states.delay(ONE, 5.0)
    states.remove(ONE)
    assert ONE not in states
    assert (list(states.followed), list(states.changed)) == ([], [])
    assert states.next_end_of_delay() is None
    states.add(ONE)
    assert states.is_ready(ONE)
