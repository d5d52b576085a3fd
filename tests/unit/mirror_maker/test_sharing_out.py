"""Who copies what: balanced, sticky, complete."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_maker.assignment import (
    Assignment,
    FlowName,
    Subscription,
    assign,
    assign_sticky,
    decode_assignment,
    decode_subscription,
    digest,
    encode_assignment,
    encode_subscription,
)
from mirror_maker.formats.workers import WorkerAddress, worker_address


def flows(count: int, topic: str = "t") -> frozenset[FlowName]:
    return frozenset(FlowName("l", topic, index) for index in range(count))


NOTHING: frozenset[FlowName] = frozenset()
subsets = st.frozensets(st.builds(FlowName, st.sampled_from("xy"), st.just("t"), st.integers(0, 9)))
memberships = st.dictionaries(
    st.sampled_from("abcde"), st.builds(Subscription, subsets, subsets), min_size=1
)


@given(memberships)
def test_everything_known_is_given_out_once_and_evenly(members: dict[str, Subscription]) -> None:
    assigned = assign_sticky(members)
    given_out = [flow for mine in assigned.values() for flow in mine]
    known = {flow for member in members.values() for flow in member.known}
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == known
    loads = [len(mine) for mine in assigned.values()]
    assert max(loads) - min(loads) <= 1


@given(memberships)
def test_a_second_round_moves_nothing(members: dict[str, Subscription]) -> None:
    assigned = assign_sticky(members)
    again = {
        name: Subscription(frozenset(assigned[name]), member.known)
        for name, member in members.items()
    }
    assert assign_sticky(again) == assigned


def test_a_new_worker_takes_only_its_share() -> None:
    known = flows(10)
    before = assign_sticky({"a": Subscription(NOTHING, known), "b": Subscription(NOTHING, known)})
    after = assign_sticky(
        {
            "a": Subscription(frozenset(before["a"]), known),
            "b": Subscription(frozenset(before["b"]), known),
            "c": Subscription(NOTHING, known),
        }
    )
    assert after["a"] < before["a"]
    assert after["b"] < before["b"]
    assert len(after["c"]) == 3


def test_a_new_topic_moves_nothing() -> None:
    known = flows(4)
    before = assign_sticky({"a": Subscription(NOTHING, known), "b": Subscription(NOTHING, known)})
    more = known | flows(2, "new")
    after = assign_sticky({n: Subscription(frozenset(f), more) for n, f in before.items()})
    assert all(before[name] <= after[name] for name in before)


def test_encodings_round_trip() -> None:
    subscription = Subscription(flows(2), flows(3, "u"), 4)
    assert decode_subscription(encode_subscription(subscription)) == subscription
    served = subscription._replace(address=WorkerAddress("::", 8083, "ewr-3"))
    assert decode_subscription(encode_subscription(served)) == served
    assert worker_address(encode_subscription(served)) == served.address
    assert worker_address(encode_subscription(subscription)) is None
    assignment = Assignment(flows(5), digest(flows(5)))
    assert decode_assignment(encode_assignment(assignment)) == assignment
    assert decode_assignment(b"") == Assignment(NOTHING, 0)
    assert digest(flows(5)) != digest(flows(4))


def test_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version"):
        decode_subscription(b"\2{}")


def test_the_leader_tells_everyone_what_was_known() -> None:
    members = [
        ("a", encode_subscription(Subscription(NOTHING, flows(2)))),
        ("b", encode_subscription(Subscription(NOTHING, flows(4)))),
    ]
    given_out = {name: decode_assignment(encoded) for name, encoded in assign(members).items()}
    assert {a.known_digest for a in given_out.values()} == {digest(flows(4))}
    assert given_out["a"].flows | given_out["b"].flows == flows(4)
