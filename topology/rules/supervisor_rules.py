"""Rules on the HTTP ports of supervisors: a token always, and TLS where other hosts reach them.

Pure. A supervisor stops processes on order. So its port is never open, not even on a loopback
address, and `allow_insecure` only replaces TLS.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from local_cluster.http_security.settings import missing_at
from topology.model.scalars import ANY_ADDRESSES, LOOPBACK_NAMES
from topology.problems import Finding, Location, nearest_name
from topology.rules.parts import Parts

HERE: Location = ("supervisors",)


def hosts_of_file(parts: Parts) -> list[str]:
    """Return every host that the valid entries name, each once."""
    found: list[str] = []
    for server in parts.zookeepers.values():
        found += (node.host for node in server.node_list)
    for cluster in parts.clusters.values():
        if cluster.effective_kind != "external":
            found += (broker.host for broker in cluster.broker_list)
        found += cluster.mirror.hosts or ()
        services = (cluster.mirror, *([cluster.aggregator] if cluster.aggregator else []))
        found += (each.host for each in services if each.host not in ANY_ADDRESSES | LOOPBACK_NAMES)
    return list(dict.fromkeys(found))


def check_supervisors(parts: Parts) -> Iterator[Finding]:
    """Yield what the ports lack, and hosts that the file does not have."""
    ports, security = parts.supervisors, parts.http_security
    if ports is None:
        return
    known = hosts_of_file(parts)
    for index, host in enumerate(ports.hosts or ()):
        if host not in known:
            expected = f"a host of this file, not {host!r}"
            yield Finding((*HERE, "hosts", index), expected, nearest_name(host, known))
    if security is None:
        return  # it is invalid by itself
    try:
        server = security.server(Path())
    except ValueError:
        return  # it is a finding of its own
    if not server.is_guarded:
        expected = "a `token` in `http_security` beside it, because supervisors take orders"
        yield Finding(HERE, expected, at_key=True)
        return
    reached = [each for each in (ports.hosts or known) if missing_at(ports.bind or each, server)]
    if reached:
        expected = (
            f"`tls` in `http_security` beside it, as other hosts reach {reached[0]};"
            " `allow_insecure: true` there accepts that"
        )
        yield Finding(HERE, expected, at_key=True)
