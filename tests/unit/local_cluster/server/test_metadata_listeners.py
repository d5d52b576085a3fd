"""What changes in a cluster: every part of the broker is told, and failures are said."""

from __future__ import annotations

import logging
from functools import partial

import pytest

from local_cluster.controller.model.metadata_cache import Changes
from local_cluster.server.metadata_listeners import MetadataListeners
from local_cluster.wire.errors import ErrorCode, KafkaError

CHANGES = Changes(topics=("a",))


class Parts:
    """Some of them fail; leading partition 0 follows from the change."""

    def __init__(self, *failing: str) -> None:
        self.failing = set(failing)
        self.told: list[str] = []
        self.listeners = MetadataListeners(
            {"groups": lambda _: self._hear("groups"), "replicas": self._lead, "moves": self._move},
            {
                "groups": lambda *_: self._hear("groups lead"),
                "transactions": lambda *_: self._hear("transactions lead"),
            },
        )

    def _lead(self, _: Changes) -> None:
        for index in (0, 1):
            self.listeners.tell_leadership("a", index, True)
        self._hear("replicas")

    def _move(self, _: Changes) -> None:
        self._hear("moves")

    def _hear(self, what: str) -> None:
        self.told.append(what)
        if what in self.failing:
            raise RuntimeError(f"{what}: a fault of ours")


EVERYBODY = [
    "groups",
    *("groups lead", "transactions lead") * 2,
    "replicas",
    "moves",
]


def test_all_are_told_in_their_order() -> None:
    parts = Parts()
    parts.listeners.tell(CHANGES)
    assert parts.told == EVERYBODY


@pytest.mark.parametrize("failing", sorted(set(EVERYBODY)))
def test_who_fails_keeps_nobody_from_being_told(
    failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    parts = Parts(failing)
    with pytest.raises(KafkaError) as failure:
        parts.listeners.tell(CHANGES)
    assert parts.told == EVERYBODY
    assert failure.value.code is ErrorCode.unknown_server_error
    assert failure.value.message.endswith(f"by {failing.removesuffix(' lead')}")
    logged = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert len(logged) == EVERYBODY.count(failing)
    assert all(each.exc_info is not None for each in logged), "with where it came from"


def test_the_next_change_is_taken_up() -> None:
    parts = Parts("groups", "moves")
    with pytest.raises(KafkaError, match="groups, moves"):
        parts.listeners.tell(CHANGES)
    parts.failing.clear()
    parts.listeners.tell(CHANGES)


def test_who_failed_is_told_again_what_it_has_not_taken_up() -> None:
    heard: list[tuple[str, Changes]] = []
    failing = True

    def hear(name: str, changes: Changes) -> None:
        heard.append((name, changes))
        if name == "replicas" and failing:
            raise RuntimeError("a fault of ours")

    listeners = MetadataListeners(
        {name: partial(hear, name) for name in ("groups", "replicas")}, of_leadership={}
    )
    for name in ("a", "b"):
        with pytest.raises(KafkaError, match="by replicas"):
            listeners.tell(Changes(topics=(name,)))
    failing = False
    heard.clear()
    # As when all is said again: to the others nothing of it is new.
    listeners.tell(Changes())
    assert heard == [("groups", Changes()), ("replicas", Changes(topics=("a", "b")))]
    heard.clear()
    listeners.tell(CHANGES)
    assert heard == [("groups", CHANGES), ("replicas", CHANGES)]


def test_a_failure_over_leading_outside_of_a_change_is_said_and_counts_for_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parts = Parts("groups lead")
    parts.listeners.tell_leadership("a", 0, False)
    assert parts.told == ["groups lead", "transactions lead"]
    assert "groups failed over the end of leading a-0" in caplog.text
    parts.failing.clear()
    parts.listeners.tell(CHANGES)
