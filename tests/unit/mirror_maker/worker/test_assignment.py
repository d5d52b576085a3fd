"""The assignment of flows: balanced, sticky, complete."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.group import GroupAssignment
from local_cluster.client.model import TopicPartition
from mirror_maker.formats.workers import (
    WorkerAddress,
    decode_document,
    encode_document,
    worker_address,
)
from mirror_maker.link.link import LinkWorker
from mirror_maker.worker.assignment import (
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
from mirror_maker.worker.worker_group import WorkerGroup


def flows(count: int, topic: str = "t") -> frozenset[FlowName]:
    return frozenset(FlowName("l", topic, index) for index in range(count))


NOTHING: frozenset[FlowName] = frozenset()
subsets = st.frozensets(st.builds(FlowName, st.sampled_from("xy"), st.just("t"), st.integers(0, 9)))
memberships = st.dictionaries(
    st.sampled_from("abcde"), st.builds(Subscription, subsets, subsets, links=st.none()), min_size=1
)


@given(memberships)
def test_every_known_flow_is_assigned_once_and_evenly(members: dict[str, Subscription]) -> None:
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


LINKS = (frozenset("x"), frozenset("y"), frozenset("xy"), None)


@st.composite
def restarting(draw: st.DrawFn) -> dict[str, Subscription]:
    """Members amid a change of settings: each has links and knows flows of those only."""
    members = {}
    for name in sorted(draw(st.sets(st.sampled_from("abcde"), min_size=1))):
        links = draw(st.sampled_from(LINKS))
        known = {flow for flow in draw(subsets) if links is None or flow.link in links}
        members[name] = Subscription(draw(subsets), frozenset(known), links=links)
    return members


@given(restarting())
def test_a_flow_goes_to_a_worker_that_has_its_link(members: dict[str, Subscription]) -> None:
    assigned = assign_sticky(members)
    given_out = [flow for mine in assigned.values() for flow in mine]
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == {flow for member in members.values() for flow in member.known}
    assert all(members[name].has(flow.link) for name, mine in assigned.items() for flow in mine)
    again = {name: each._replace(owned=frozenset(assigned[name])) for name, each in members.items()}
    assert assign_sticky(again) == assigned


def test_a_worker_without_a_new_link_gets_more_of_the_other_links() -> None:
    old, new = flows(8), frozenset(FlowName("added", "u", index) for index in range(4))
    members = {
        "restarted": Subscription(NOTHING, old | new, links=frozenset({"l", "added"})),
        "waiting": Subscription(old, old, links=frozenset({"l"})),
    }
    assigned = assign_sticky(members)
    assert new <= assigned["restarted"]
    assert {name: len(mine) for name, mine in assigned.items()} == {"restarted": 6, "waiting": 6}


def test_a_worker_of_an_older_version_has_all_links() -> None:
    told = decode_document(encode_subscription(Subscription(NOTHING, flows(2))))
    del told["links"]
    assert decode_subscription(encode_document(told)).links is None
    assert Subscription(NOTHING, NOTHING).has("any")


def test_a_flow_whose_link_no_worker_has_is_not_assigned() -> None:
    members = {"a": Subscription(flows(2), flows(2), links=frozenset({"other"}))}
    assert assign_sticky(members) == {"a": set()}


async def test_a_worker_reports_its_links_and_flows_of_unknown_links(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = SimpleNamespace(
        target_alias="t", worker_id="w", session_timeout_ms=10_000, heartbeat_ms=1_000
    )
    group = WorkerGroup(cast(Any, settings), cast(Any, None))
    taken: list[TopicPartition] = []
    link = SimpleNamespace(name="l", known=frozenset({TopicPartition("t", 0)}), assign=taken.extend)
    group.attach([cast(LinkWorker, link)])
    assert decode_subscription(group.subscription()).links == frozenset({"l"})

    async def give(mine: frozenset[FlowName]) -> None:
        encoded = encode_assignment(Assignment(mine, digest(mine)))
        await group.on_assignment(GroupAssignment(1, "m", encoded))

    await give(flows(1) | {FlowName("added", "u", 0)})
    assert taken == [TopicPartition("t", 0)]
    assert list(group.unknown_links) == ["added"]
    assert "does not have their links: added" in caplog.text
    await give(flows(1))
    assert list(group.unknown_links) == []


def test_encodings_round_trip() -> None:
    subscription = Subscription(flows(2), flows(3, "u"), 4)
    assert decode_subscription(encode_subscription(subscription)) == subscription
    served = subscription._replace(address=WorkerAddress("::", 8083, "ewr-3"))
    assert decode_subscription(encode_subscription(served)) == served
    assert worker_address(encode_subscription(served)) == served.address
    assert worker_address(encode_subscription(subscription)) is None
    linked = subscription._replace(links=frozenset({"a", "b"}))
    assert decode_subscription(encode_subscription(linked)) == linked
    assignment = Assignment(flows(5), digest(flows(5)))
    assert decode_assignment(encode_assignment(assignment)) == assignment
    assert decode_assignment(b"") == Assignment(NOTHING, 0)
    assert digest(flows(5)) != digest(flows(4))


def test_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version"):
        decode_subscription(b"\2{}")


def test_every_assignment_has_the_digest_of_all_known_flows() -> None:
    members = [
        ("a", encode_subscription(Subscription(NOTHING, flows(2)))),
        ("b", encode_subscription(Subscription(NOTHING, flows(4)))),
    ]
    given_out = {name: decode_assignment(encoded) for name, encoded in assign(members).items()}
    assert {a.known_digest for a in given_out.values()} == {digest(flows(4))}
    assert given_out["a"].flows | given_out["b"].flows == flows(4)
