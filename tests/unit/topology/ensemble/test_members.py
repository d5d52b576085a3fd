"""The lines of ZooKeeper's dynamic configuration."""

from __future__ import annotations

import pytest

from topology.ensemble.members import Membership, decode_membership, member_address

ONE, TWO, THREE = (
    member_address(f"10.0.0.{n}", 2182, 2183, f"10.0.0.{n}", 2181) for n in (1, 2, 3)
)


def test_an_address_has_the_ports_among_nodes_and_that_of_clients() -> None:
    assert ONE == "10.0.0.1:2182:2183:participant;10.0.0.1:2181"
    assert member_address("::1", 1, 2, "::1", 3) == "[::1]:1:2:participant;[::1]:3"


@pytest.mark.parametrize("is_weighted", [False, True])
def test_what_is_written_is_read_again(is_weighted: bool) -> None:
    members = Membership(members={1: ONE, 2: TWO, 3: THREE}, version=7, is_weighted=is_weighted)
    assert decode_membership(members.text(), 7) == members
    assert decode_membership(f"{members.text()}version=7\n") == members


@pytest.mark.parametrize("count", [3, 5])
def test_every_majority_of_a_weighted_configuration_has_node_1(count: int) -> None:
    text = Membership(members=dict.fromkeys(range(1, count + 1), ONE), is_weighted=True).text()
    pairs = (line.partition("=") for line in text.splitlines() if line.startswith("weight."))
    weights = {int(name.removeprefix("weight.")): int(value) for name, _, value in pairs}
    half = sum(weights.values()) / 2
    assert sum(weight for number, weight in weights.items() if number != 1) <= half
    assert weights[1] <= half
    assert all(weights[1] + weights[other] > half for other in range(2, count + 1))


def test_a_configuration_without_members_is_an_error() -> None:
    with pytest.raises(ValueError, match="without a member"):
        decode_membership("version=1\n")
