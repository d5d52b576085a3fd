"""Rules on links: references to clusters, copy loops, colliding names. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from topology.model import LinkNames
from topology.problems import Finding, Location, nearest_name
from topology.rules.copy_loops import find_copy_loops, find_second_paths
from topology.rules.name_collisions import find_collisions
from topology.rules.parts import Parts, duplicates


def check_links(parts: Parts) -> Iterator[Finding]:
    pairs: list[tuple[Location, object]] = []
    for index, link in parts.links.items():
        here: Location = ("links", index)
        for key, name in (("source", link.source), ("target", link.target)):
            if name not in parts.cluster_names:
                expected = f"the name of a cluster, not {name!r}"
                near = nearest_name(name, parts.cluster_names)
                yield Finding((*here, key), expected, near)
        if link.source == link.target:
            yield Finding((*here, "target"), "a cluster other than the source")
        if isinstance(link.names, LinkNames) and (link.names.pattern is None) != (
            link.names.to is None
        ):
            yield Finding((*here, "names"), "`pattern` and `to` together", at_key=True)
        targets = [each for each in parts.clusters.values() if each.name == link.target]
        if link.probe and targets and not targets[0].has_aggregator:
            expected = f"`aggregator` in cluster {link.target}, which probes the links into it"
            yield Finding((*here, "probe"), expected)
        for key in ("groups", "transactional_ids"):
            if getattr(link.acls, key) and not link.acls.sync:
                yield Finding((*here, "acls", key), "`sync: true` beside it", at_key=True)
        pairs.append((here, f"{link.source} to {link.target}"))
    yield from duplicates(pairs, "one link for each source and target, with all its topics")
    links = list(parts.links.values())
    loops = find_copy_loops(links)
    # In a loop every record also has a second path; reporting those would only hide the loop.
    for found in loops or find_second_paths(links):
        index = next(i for i, link in parts.links.items() if link is found.links[-1])
        yield Finding(("links", index, "topics"), found.sentence(), at_key=True)
    for collision in find_collisions(links):
        index = next(i for i, link in parts.links.items() if link is collision.link)
        key = "names" if "names" in collision.link.model_fields_set else "topics"
        yield Finding(("links", index, key), collision.sentence(), at_key=True)
