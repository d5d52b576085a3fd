"""Hosts that edit, agree, meet silent ZooKeepers and are killed, in any order.

A file is a set of edits, and an edit adds one. So an edit is lost if a later generation lacks it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.shared_file.generations import (
    Decision,
    Generation,
    Seen,
    decide,
    decode_generation,
    decode_seen,
    encode_generation,
    encode_seen,
)

STEPS_MAX = 60
HOSTS = ("a", "b", "c")


def edits_of(text: str) -> set[str]:
    return set(text.split())


def text_of(edits: set[str]) -> str:
    return " ".join(sorted(edits, key=int))


@dataclass
class Store:
    """The znode of one ZooKeeper."""

    content: bytes | None = None
    version: int = -1
    is_silent: bool = False
    written: set[str] = field(default_factory=set)
    """Every edit that it ever held."""

    def read(self) -> tuple[Generation | None, int]:
        found = None if self.content is None else decode_generation(self.content)
        return found, self.version

    def write(self, generation: Generation, version: int) -> bool:
        """Whether the znode had the version."""
        if version != self.version:
            return False
        self.content, self.version = encode_generation(generation), version + 1
        self.written |= edits_of(generation.text)
        return True


@dataclass
class Host:
    name: str
    stores: list[Store]
    text: str = ""
    note: str = encode_seen(Seen())

    def up(self, replaces: int | None = None) -> Iterator[str]:
        """One `up`; it may be killed at every yield. The last word is the state."""
        while True:
            reached = [each for each in self.stores if not each.is_silent]
            held = [(store, *store.read()) for store in reached]
            yield "read"
            if not held:
                self.note = encode_seen(replace(decode_seen(self.note), applied=self.text))
                yield "unknown"
                return
            stored = [found for _, found, _ in held if found is not None]
            seen = decode_seen(self.note)
            decision = decide(self.text, seen, stored, replaces=replaces)
            if decision.state in ("behind", "conflict"):
                yield decision.state
                return
            generation = self.claimed(decision, seen)
            yield "claimed"
            is_overtaken = False
            for store, found, version in held:
                if is_overtaken or (found is not None and found.is_same(generation)):
                    continue
                if store.is_silent:
                    yield "unknown"
                    return
                is_overtaken = not store.write(generation, version)
                yield "written"
            if not is_overtaken:
                self.note = encode_seen(Seen(generation=generation))
                yield "same"
                return

    def claimed(self, decision: Decision, seen: Seen) -> Generation:
        if decision.state == "same":
            assert decision.newest is not None
            return decision.newest
        generation = decision.next(self.text, self.name, "now")
        self.note = encode_seen(replace(seen, claim=generation))
        return generation

    def settle(self) -> None:
        """Do what people do: get the newest file if it is behind, merge if edits conflict."""
        while (state := list(self.up())[-1]) != "same":
            stored = [found for found, _ in (store.read() for store in self.stores) if found]
            newest = max(stored, key=lambda each: each.number)
            if state == "behind":
                self.text = newest.text
                continue
            assert state == "conflict"
            # The diff shows the newest generation and its rival; nobody can merge what is unseen.
            merged = edits_of(self.text).union(*(edits_of(each.text) for each in stored))
            self.text = text_of(merged)
            assert list(self.up(replaces=newest.number))[-1] == "same"


@pytest.mark.parametrize("zookeepers", [1, 2])
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_no_edit_is_lost(zookeepers: int, data: st.DataObject) -> None:
    stores = [Store() for _ in range(zookeepers)]
    hosts = [Host(name, stores) for name in HOSTS]
    running: dict[str, Iterator[str]] = {}
    for number in range(data.draw(st.integers(1, STEPS_MAX))):
        host = data.draw(st.sampled_from(hosts))
        before = [store.read()[0] for store in stores]
        match data.draw(st.sampled_from(["edit", "step", "step", "step", "kill", "silence"])):
            case "edit" if host.name not in running:
                host.text = text_of(edits_of(host.text) | {str(number)})
            case "step":
                step = running.setdefault(host.name, host.up())
                if next(step, None) is None:
                    del running[host.name]
            case "kill":
                running.pop(host.name, None)
            case "silence":
                store = data.draw(st.sampled_from(stores))
                store.is_silent = not store.is_silent
        for store, former in zip(stores, before, strict=True):
            now = store.read()[0]
            if former is not None and zookeepers == 1:
                assert now is not None
                assert edits_of(now.text) >= edits_of(former.text), "an edit was written over"
                assert now.number in (former.number, former.number + 1)
    for store in stores:
        store.is_silent = False
    for host in (*hosts, *hosts):
        host.settle()
    assert len({host.text for host in hosts}) == 1
    stored = [found for found, _ in (store.read() for store in stores) if found is not None]
    assert len(stored) == len(stores)
    assert {(each.number, each.text) for each in stored} == {(stored[0].number, hosts[0].text)}
    assert edits_of(hosts[0].text) >= set().union(*(store.written for store in stores))


def test_a_host_without_claims_would_take_its_own_generation_for_another_ones() -> None:
    """Why a host notes what it is about to write."""
    stores = [Store()]
    host = Host("a", stores, text="1")
    up = host.up()
    while next(up) != "written":
        pass
    host.text = "1 2"
    assert list(host.up())[-1] == "same"
    host.text = "1 2 3"
    up = host.up()
    while next(up) != "written":
        pass
    host.note = encode_seen(replace(decode_seen(host.note), claim=None))
    host.text = "1 2 3 4"
    assert list(host.up())[-1] == "conflict"
