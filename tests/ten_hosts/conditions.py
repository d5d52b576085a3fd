"""What steps wait for: each condition says what it still lacks, and nothing once it holds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Final

from tests.ten_hosts.clusters import in_sync_on, out_of_sync
from tests.ten_hosts.host import Host
from tests.ten_hosts.layout import AGGREGATE, Layout
from tests.ten_hosts.load import Load

PATIENCE_S: Final = 1_200.0
"""How long each condition may take: the machine may be busy with other work."""
POLL_S: Final = 2.0
SAY_S: Final = 20.0
"""Between two lines about the same wait."""
SHOWN_CHARACTERS_MAX: Final = 300
WORKING: Final = ("running", "catching_up", "elsewhere")
"""States of links that do their work."""

Say = Callable[[str], None]
Wrong = Callable[[], str]


def wait(say: Say, what: str, wrong: Wrong) -> None:
    """Wait until nothing is wrong; say what is, now and then. Raises TimeoutError."""
    begun_s, said_s = time.monotonic(), -math.inf
    while found := wrong():
        if time.monotonic() - said_s > SAY_S:
            say(f"waits until {what}: {found[:SHOWN_CHARACTERS_MAX]}")
            said_s = time.monotonic()
        if time.monotonic() - begun_s > PATIENCE_S:
            raise TimeoutError(f"not within {PATIENCE_S:.0f} s: {what}: {found}")
        time.sleep(POLL_S)
    say(f"{what} ({time.monotonic() - begun_s:.0f} s)")


def too_few(load: Load, before: Mapping[str, int], records: int) -> str:
    """Return which datacenters have not acknowledged so many records more."""
    late = {
        name: count - before[name]
        for name, count in load.counts().items()
        if count - before[name] < records
    }
    return f"acknowledged are {late} of {records}" if late else ""


def not_read(load: Load, wanted: Mapping[str, frozenset[str]]) -> str:
    """Return how many of some records a group has not got."""
    late = {name: count for name, count in load.missing(wanted).items() if count}
    return f"records that a group has not got: {late}" if late else ""


def still_in_sync(layout: Layout, number: int) -> str:
    """Return which brokers of a host are in sync anywhere, or may be."""
    counts = {
        f"broker {broker} of {cluster}": in_sync_on(layout.bootstrap(cluster), broker)
        for cluster in layout.clusters
        for broker, host in layout.brokers(cluster).items()
        if host == number
    }
    return f"partitions in sync: {counts}" if any(each != 0 for each in counts.values()) else ""


def not_well(hosts: Mapping[int, Host], layout: Layout) -> str:
    """Return what is not well, as `status` and an outside client see it."""
    document = hosts[1].status()
    found = [f"host-1 is {document['state']}: {document['problems']}"]
    if document["state"] == "running" and not document["problems"]:
        found = []
    for other in document["hosts"]:
        if other["state"] != "answers" or other["file"] != "same":
            found.append(f"{other['host']}: {other['state']}, file {other['file']}")
        found += [
            f"{other['host']}: {each['label']} is {each['state']}"
            for each in other["daemons"]
            if each["state"] != "running"
        ]
    for name in layout.clusters:
        found += [f"{name}: {line}" for line in out_of_sync(layout.bootstrap(name))]
    if found:
        return "; ".join(found)
    # Hosts with a mirror worker know about their links what another host is not told.
    for number in layout.brokers(AGGREGATE).values():
        status = hosts[number].status()
        links = [each for each in status["links"] if each["state"] not in WORKING]
        if status["state"] != "running" or status["problems"] or links:
            return f"host-{number} is {status['state']}: {status['problems']} {links}"
    return ""
