"""Which quota holds for a client: Kafka's order, and whose values are added up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.quotas.entity import CLIENT_ID, USER, Entity, entity
from local_cluster.quotas.limits import Limit, Share, find_limit

KEY = "producer_byte_rate"
IN_ORDER = [
    entity({USER: "u", CLIENT_ID: "c"}),
    entity({USER: "u", CLIENT_ID: None}),
    entity({USER: "u"}),
    entity({USER: None, CLIENT_ID: "c"}),
    entity({USER: None, CLIENT_ID: None}),
    entity({USER: None}),
    entity({CLIENT_ID: "c"}),
    entity({CLIENT_ID: None}),
]
SHARES = [
    Share("u", "c"),
    Share("u", "c"),
    Share("u", ""),
    Share("u", "c"),
    Share("u", "c"),
    Share("u", ""),
    Share("", "c"),
    Share("", "c"),
]


@given(st.sets(st.integers(0, 7)))
def test_the_most_specific_quota_holds(which: set[int]) -> None:
    quotas = {IN_ORDER[index]: {KEY: float(index)} for index in which}
    found = find_limit(quotas, KEY, "u", "c")
    first = min(which, default=None)
    assert found == (None if first is None else Limit(SHARES[first], float(first)))


@given(st.sets(st.integers(0, 7)))
def test_quotas_of_others_do_not_hold(which: set[int]) -> None:
    def others(names: Entity) -> Entity:
        return tuple((kind, "x" if name is not None else "y") for kind, name in names)

    quotas = {others(IN_ORDER[index]): {KEY: 1.0} for index in which}
    assert find_limit(quotas, KEY, "u", "c") is None


def test_another_quota_of_the_entity_does_not_hide_a_general_one() -> None:
    quotas = {IN_ORDER[0]: {"consumer_byte_rate": 1.0}, IN_ORDER[7]: {KEY: 2.0}}
    assert find_limit(quotas, KEY, "u", "c") == Limit(Share("", "c"), 2.0)


@pytest.mark.parametrize("entity_index", [4, 7])
def test_defaults_of_client_ids_do_not_hold_without_one(entity_index: int) -> None:
    assert find_limit({IN_ORDER[entity_index]: {KEY: 1.0}}, KEY, "u", "") is None
