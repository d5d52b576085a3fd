"""Entities and their znodes, as Kafka 3.9 lays them out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.quotas.entity import CLIENT_ID, IP, USER, entity, entity_at, path_of

NAMES = st.none() | st.text(st.characters(codec="utf-8"), min_size=1)
LEGAL = st.sampled_from([(USER,), (CLIENT_ID,), (USER, CLIENT_ID), (IP,)])


@pytest.mark.parametrize(
    ("names", "path"),
    [
        ({USER: "alice"}, "/config/users/alice"),
        ({USER: None}, "/config/users/<default>"),
        ({CLIENT_ID: "app"}, "/config/clients/app"),
        ({USER: "alice", CLIENT_ID: "app"}, "/config/users/alice/clients/app"),
        ({CLIENT_ID: None, USER: None}, "/config/users/<default>/clients/<default>"),
        ({IP: "::1"}, "/config/ips/%3A%3A1"),
        ({USER: "<default>"}, "/config/users/%3Cdefault%3E"),
        ({USER: "CN=a, O=b"}, "/config/users/CN%3Da%2C%20O%3Db"),
    ],
)
def test_paths(names: dict[str, str | None], path: str) -> None:
    assert path_of(entity(names)) == path
    assert entity_at(path) == entity(names)


@given(LEGAL, st.data())
def test_each_entity_has_a_path_of_its_own(kinds: tuple[str, ...], data: st.DataObject) -> None:
    which = entity({kind: data.draw(NAMES) for kind in kinds})
    path = path_of(which)
    assert entity_at(path) == which
    assert path.count("/") == (5 if len(kinds) == 2 else 3)


@pytest.mark.parametrize("path", ["/config/users", "/config/topics/t", "/config/users/u/clients"])
def test_other_paths_are_no_entities(path: str) -> None:
    assert entity_at(path) is None
