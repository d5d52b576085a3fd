"""Copy loops, and records that would reach one topic by two paths. Pure.

A link with prefixed names writes topic T of cluster C as C.T. It copies no topic whose name shows
that the topic came from the target. So A<->B is no loop: each side holds its own topics and one
copy of the other's. A ring is no loop either. A link with `origin: local` copies no records that a
mirror wrote, so A<->B is no loop under identical names either.

Guarantees: every reported loop is real. It is shown with a topic that would circulate, and found
with the mirror's own rules of naming and selection.
Method: made-up topics that match the links' patterns (example_topics.py) are followed through the
links. A loop is not found if only topics unlike every example enter it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mirror_maker.rules.topic_filter import TopicFilter
from topology.model import Link
from topology.rules.example_topics import example_topics

TOPIC_NAME_CHARS_MAX = 249
"""Kafka's limit. A name that grows past it by a repeated link circulates."""

STATES_MAX = 20_000
"""Most (cluster, topic) pairs that are visited."""


@dataclass(frozen=True, slots=True)
class CopyLoop:
    """Links that a record would pass again and again."""

    links: tuple[Link, ...]
    cluster: str
    topic: str

    def sentence(self) -> str:
        path = ", ".join(link.effective_name for link in self.links)
        return (
            f"no copy loop; records of {self.topic!r} in {self.cluster} would come back there"
            f" by {path}, again and again"
        )


@dataclass(frozen=True, slots=True)
class SecondPath:
    """Links by which a record reaches a topic that it is in already."""

    links: tuple[Link, ...]
    cluster: str
    topic: str
    end_cluster: str
    end_topic: str

    def sentence(self) -> str:
        path = ", ".join(link.effective_name for link in self.links)
        return (
            f"one path for every record; records of {self.topic!r} in {self.cluster} would be twice"
            f" in {self.end_topic!r} in {self.end_cluster}, the second time by {path}"
        )


CopyRule = Callable[[str], str | None]
"""Returns the name of a link's copy of a topic; None if the link does not copy it."""


def copy_rule(link: Link) -> CopyRule:
    """Return the mirror's own rule for a link."""
    topics = link.topic_filter
    names = link.topic_names
    selected = TopicFilter(
        topics.include, topics.exclude, link.target, is_prefixed=names.is_prefixed
    )
    return lambda name: names.target_topic(link.source, name) if selected.selects(name) else None


_State = tuple[str, str, bool]
"""Cluster, topic, and whether the record was produced in another cluster."""
_Step = tuple[_State, tuple[Link, ...], tuple[_State, ...]]
"""The state of a record, the links it has passed, and its state before each of them."""


def find_copy_loops(
    links: Sequence[Link], rule_of: Callable[[Link], CopyRule] = copy_rule
) -> list[CopyLoop]:
    """Return one loop for each set of links in which records would circulate."""
    return [found for found in _find(links, rule_of) if isinstance(found, CopyLoop)]


def find_second_paths(
    links: Sequence[Link], rule_of: Callable[[Link], CopyRule] = copy_rule
) -> list[SecondPath]:
    """Return one path for each set of links that would copy records twice; without loops."""
    return [found for found in _find(links, rule_of) if isinstance(found, SecondPath)]


def _find(
    links: Sequence[Link], rule_of: Callable[[Link], CopyRule]
) -> Iterator[CopyLoop | SecondPath]:
    followers: dict[str, list[tuple[Link, CopyRule]]] = {}
    for link in links:
        if link.source != link.target:
            followers.setdefault(link.source, []).append((link, rule_of(link)))
    found: dict[tuple[type, frozenset[str]], CopyLoop | SecondPath] = {}
    filters = [link.topic_filter for link in links]
    examples = example_topics([p for each in filters for p in each.include])
    budget = [STATES_MAX]
    for cluster in followers:
        for topic in examples:
            for each in _walk(cluster, topic, followers, budget):
                names = frozenset(link.effective_name for link in each.links)
                found.setdefault((type(each), names), each)
    yield from found.values()


def _walk(
    cluster: str,
    topic: str,
    followers: Mapping[str, list[tuple[Link, CopyRule]]],
    budget: list[int],
) -> Iterator[CopyLoop | SecondPath]:
    """Search depth first from one topic; a state that recurs on its own path is a loop."""
    stack: list[_Step] = [((cluster, topic, False), (), ())]
    seen: set[_State] = set()
    places: set[tuple[str, str]] = set()
    while stack and budget[0] > 0:
        budget[0] -= 1
        state, path, states = stack.pop()
        here, name, is_foreign = state
        if state in states:
            around = path[states.index(state) :]
            yield CopyLoop(around, here, name)
            continue
        if (here, name) in places:
            yield SecondPath(path, cluster, topic, here, name)
        places.add((here, name))
        if len(name) > TOPIC_NAME_CHARS_MAX:
            before = [i for i, link in enumerate(path[:-1]) if link is path[-1]]
            if before:  # otherwise the name is only too long, and Kafka refuses it
                yield CopyLoop(path[before[-1] + 1 :], states[before[-1] + 1][0], topic)
            continue
        if state in seen:
            continue
        seen.add(state)
        for link, copy_of in followers.get(here, ()):
            if is_foreign and link.effective_origin == "local":
                continue
            copied = copy_of(name)
            if copied is not None:
                stack.append(((link.target, copied, True), (*path, link), (*states, state)))
