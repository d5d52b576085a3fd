"""True copy loops, and records that would come to the same topic by two paths.

A link with prefixed names writes topic T of cluster C as C.T and copies no topic that its name
shows to have been at the target. So A<->B is no loop: each side holds its own topics and one copy
of the other's; nor is a ring. A link with `origin: local` copies nothing that a mirror wrote; so
A<->B is no loop under identical names either.

Guarantees: what is reported is a real loop, shown with a topic that would go round, found with
the mirror's own rules of naming and selecting.
How: topics that match the links' patterns are made up (example_topics.py) and followed through the
links. A loop that only a topic name no example resembles could enter is not found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mirror_maker.rules.topic_filter import TopicFilter
from topology.model import Link
from topology.rules.example_topics import example_topics

TOPIC_NAME_CHARS_MAX = 249
"""Kafka's limit; a name that has grown past it without a repeat has been going round."""

STATES_MAX = 20_000
"""Most (cluster, topic) pairs looked at."""


@dataclass(frozen=True, slots=True)
class CopyLoop:
    """Links a record would pass, again and again."""

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
    """Links by which a record comes to a topic where it is already, or has come before."""

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
"""What one link calls the copy of a topic; None where it does not copy it."""


def copy_rule(link: Link) -> CopyRule:
    """The mirror's own rule for a link."""
    topics = link.topic_filter
    names = link.topic_names
    selected = TopicFilter(
        topics.include, topics.exclude, link.target, is_prefixed=names.is_prefixed
    )
    return lambda name: names.target_topic(link.source, name) if selected.selects(name) else None


_State = tuple[str, str, bool]
"""Cluster, topic, and whether the record was born elsewhere."""
_Step = tuple[_State, tuple[Link, ...], tuple[_State, ...]]
"""Where a record is, the links passed, and where it was before each."""


def find_copy_loops(
    links: Sequence[Link], rule_of: Callable[[Link], CopyRule] = copy_rule
) -> list[CopyLoop]:
    """One loop for each set of links that records could go round in."""
    return [found for found in _find(links, rule_of) if isinstance(found, CopyLoop)]


def find_second_paths(
    links: Sequence[Link], rule_of: Callable[[Link], CopyRule] = copy_rule
) -> list[SecondPath]:
    """One for each set of links by which records would be doubled; loops are not among them."""
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
    """Depth first from one topic of one cluster; a state met again on its own path is a loop."""
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
            if before:  # else the name is only too long, which Kafka itself refuses
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
