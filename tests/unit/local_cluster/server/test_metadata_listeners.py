"""Metadata changes: every part of the broker gets them, and failures are reported."""

from __future__ import annotations

import logging
from functools import partial

import pytest

from local_cluster.controller.model.metadata_cache import Changes
from local_cluster.server.metadata_listeners import MetadataListeners
from local_cluster.wire.errors import ErrorCode, KafkaError

CHANGES = Changes(topics=("a",))


class Parts:
    """The parts of a broker. Some fail. The change makes the broker leader of two partitions."""

    def __init__(self, *failing: str) -> None:
        self.failing = set(failing)
        self.notified: list[str] = []
        self.listeners = MetadataListeners(
            {
                "groups": lambda _: self._record("groups"),
                "replicas": self._lead,
                "moves": self._move,
            },
            {
                "groups": lambda *_: self._record("groups lead"),
                "transactions": lambda *_: self._record("transactions lead"),
            },
        )

    def _lead(self, _: Changes) -> None:
        for index in (0, 1):
            self.listeners.notify_leadership("a", index, True)
        self._record("replicas")

    def _move(self, _: Changes) -> None:
        self._record("moves")

    def _record(self, what: str) -> None:
        self.notified.append(what)
        if what in self.failing:
            raise RuntimeError(f"{what}: a fault of ours")


EVERYBODY = [
    "groups",
    *("groups lead", "transactions lead") * 2,
    "replicas",
    "moves",
]


def test_all_parts_are_notified_in_order() -> None:
    parts = Parts()
    parts.listeners.notify(CHANGES)
    assert parts.notified == EVERYBODY


@pytest.mark.parametrize("failing", sorted(set(EVERYBODY)))
def test_a_part_that_fails_keeps_no_other_from_being_notified(
    failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    parts = Parts(failing)
    with pytest.raises(KafkaError) as failure:
        parts.listeners.notify(CHANGES)
    assert parts.notified == EVERYBODY
    assert failure.value.code is ErrorCode.unknown_server_error
    assert failure.value.message.endswith(f"in {failing.removesuffix(' lead')}")
    logged = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert len(logged) == EVERYBODY.count(failing)
    assert all(each.exc_info is not None for each in logged), "with its traceback"


def test_the_next_change_can_succeed() -> None:
    parts = Parts("groups", "moves")
    with pytest.raises(KafkaError, match="groups, moves"):
        parts.listeners.notify(CHANGES)
    parts.failing.clear()
    parts.listeners.notify(CHANGES)


def test_a_part_that_failed_gets_what_it_has_missed() -> None:
    received: list[tuple[str, Changes]] = []
    failing = True

    def receive(name: str, changes: Changes) -> None:
        received.append((name, changes))
        if name == "replicas" and failing:
            raise RuntimeError("a fault of ours")

    listeners = MetadataListeners(
        {name: partial(receive, name) for name in ("groups", "replicas")}, of_leadership={}
    )
    for name in ("a", "b"):
        with pytest.raises(KafkaError, match="in replicas"):
            listeners.notify(Changes(topics=(name,)))
    failing = False
    received.clear()
    # As after a full image: for the others nothing has changed.
    listeners.notify(Changes())
    assert received == [("groups", Changes()), ("replicas", Changes(topics=("a", "b")))]
    received.clear()
    listeners.notify(CHANGES)
    assert received == [("groups", CHANGES), ("replicas", CHANGES)]


def test_a_leadership_failure_outside_of_a_change_is_logged_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parts = Parts("groups lead")
    parts.listeners.notify_leadership("a", 0, False)
    assert parts.notified == ["groups lead", "transactions lead"]
    assert "groups failed over the end of leadership of a-0" in caplog.text
    parts.failing.clear()
    parts.listeners.notify(CHANGES)
