"""Cycles in a small graph with labelled edges. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple


class Edge(NamedTuple):
    """`tail` came before `head`, as `label` says, about `key`."""

    tail: int
    head: int
    label: str
    key: str


def edges_of_components(edges: Sequence[Edge]) -> list[list[Edge]]:
    """For each strongly connected component of two nodes or more, the edges inside of it."""
    component_of: dict[int, int] = {}
    for number, component in enumerate(components(edges)):
        component_of.update(dict.fromkeys(component, number))
    inside: dict[int, list[Edge]] = defaultdict(list)
    for edge in edges:
        number = component_of.get(edge.tail, -1)
        if number >= 0 and component_of.get(edge.head) == number:
            inside[number].append(edge)
    return [inside[number] for number in sorted(inside)]


def components(edges: Iterable[Edge]) -> list[set[int]]:
    """Strongly connected components of two nodes or more (Tarjan, without recursion)."""
    following: Mapping[int, list[int]] = _following(edges)
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[set[int]] = []
    for root in list(following):
        if root in index:
            continue
        work = [(root, iter(following[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, heads = work[-1]
            entered = False
            for head in heads:
                if head not in index:
                    index[head] = low[head] = len(index)
                    stack.append(head)
                    on_stack.add(head)
                    work.append((head, iter(following.get(head, []))))
                    entered = True
                    break
                if head in on_stack:
                    low[node] = min(low[node], index[head])
            if entered:
                continue
            work.pop()
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[node])
            if low[node] == index[node]:
                component = set()
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    component.add(member)
                    if member == node:
                        break
                if len(component) > 1:
                    found.append(component)
    return found


def cycle(edges: Iterable[Edge], first: Callable[[Edge], bool]) -> list[Edge] | None:
    """A shortest cycle through an edge that `first` accepts; None where there is none."""
    edges = list(edges)
    following: dict[int, list[Edge]] = defaultdict(list)
    for edge in edges:
        following[edge.tail].append(edge)
    for start in edges:
        if not first(start):
            continue
        came_by: dict[int, Edge] = {}
        waiting = deque([start.head])
        while waiting and start.tail not in came_by:
            for edge in following[waiting.popleft()]:
                if edge.head not in came_by and edge.head != start.head:
                    came_by[edge.head] = edge
                    waiting.append(edge.head)
        if start.tail in came_by:
            path = [came_by[start.tail]]
            while path[0].tail != start.head:
                path.insert(0, came_by[path[0].tail])
            return [start, *path]
    return None


def _following(edges: Iterable[Edge]) -> dict[int, list[int]]:
    following: dict[int, list[int]] = {}
    for edge in edges:
        following.setdefault(edge.tail, []).append(edge.head)
        following.setdefault(edge.head, [])
    return following
