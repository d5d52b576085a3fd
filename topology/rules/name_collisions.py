"""Two copies with one name: links that would mix topics without `merge`. Pure.

Guarantees: every reported collision is real, and is shown with two topics that would collide.
Method: made-up topics that match the links' patterns (example_topics.py) are named by the mirror's
own rule. A collision is not found if only topics unlike every example meet in it. The mirror then
copies neither of two topics of one link, and stops at records of another link.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from topology.model import Link
from topology.rules.copy_loops import copy_rule
from topology.rules.example_topics import example_topics


@dataclass(frozen=True, slots=True)
class Collision:
    """Two topics with the same name for their copies."""

    link: Link
    topic: str
    other: Link
    other_topic: str
    target_topic: str

    def sentence(self) -> str:
        return (
            f"a name of its own for every copy; {self.topic!r} of {self.link.source} and"
            f" {self.other_topic!r} of {self.other.source} would both be {self.target_topic!r} in"
            f" {self.link.target} (`merge` in both links says that they may)"
        )


def find_collisions(links: Sequence[Link]) -> Iterator[Collision]:
    """Yield the first collision of each pair of links, and of each link with itself."""
    patterns = [pattern for link in links for pattern in link.topic_filter.include]
    examples = example_topics(patterns)
    named = [_copies(link, examples) for link in links]
    for index, link in enumerate(links):
        for other_index in range(index + 1):
            other = links[other_index]
            if other.target == link.target:
                found = _first(link, named[index], other, named[other_index])
                if found is not None:
                    yield found


_Copies = dict[str, list[str]]
"""Source topics by target topic."""


def _copies(link: Link, examples: Sequence[str]) -> _Copies:
    copy_of = copy_rule(link)
    copies: _Copies = {}
    for topic in dict.fromkeys([*examples, *link.topic_names.map]):
        copy = copy_of(topic)
        if copy is not None:
            copies.setdefault(copy, []).append(topic)
    return copies


def _first(link: Link, copies: _Copies, other: Link, others: _Copies) -> Collision | None:
    for target, topics in copies.items():
        if link is other:
            if len(topics) > 1:
                return Collision(link, topics[1], link, topics[0], target)
        elif target in others:
            may = link.topic_names.is_shared(topics[0]) and other.topic_names.is_shared(
                others[target][0]
            )
            if not may:
                return Collision(link, topics[0], other, others[target][0], target)
    return None
