"""Rules on links: references to clusters, copy loops, colliding names. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from local_cluster.security.authentication.listener_security import uses_tls
from topology.model import Cluster, Link, LinkNames
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
        yield from _check_users(link, here, parts)
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


def _check_users(link: Link, here: Location, parts: Parts) -> Iterator[Finding]:
    """Yield what keeps the SCRAM users of a link from following."""
    at = (*here, "users")
    if not link.users.sync:
        return
    if not link.users.include:
        yield Finding(at, "`include` with the users that follow", at_key=True)
    clusters = {each.name: each for each in parts.clusters.values()}
    for name in (link.source, link.target):
        cluster = clusters.get(name)
        if cluster is not None and (expected := _lacking(cluster)) is not None:
            yield Finding(at, expected, at_key=True)
    source = clusters.get(link.source)
    if source is not None and source.authorizer and not source.authorizer.credential_readers:
        expected = f"`credential_readers` in the `authorizer` of cluster {source.name}"
        yield Finding(at, f"{expected}, with the principal of the mirror", at_key=True)


def _lacking(cluster: Cluster) -> str | None:
    """Return what a cluster needs so that SCRAM users follow from it or into it."""
    if cluster.external is not None:
        return f"absent: cluster {cluster.name} is external, and only brokers of ours take part"
    if cluster.authorizer is None:
        return f"`authorizer` in cluster {cluster.name}"
    if not uses_tls(cluster.listeners[0].security_protocol):
        return f"TLS on the first listener of cluster {cluster.name}, which links use"
    return None
