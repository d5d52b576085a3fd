"""With which members a node starts, and its config file. Pure.

    what it has                      it starts with
    a recorded configuration         these members; addresses come from the file
    nothing, and is the only node    itself
    nothing                          all nodes of the file, weighted: no ensemble without node 1
    data of a one-node server        itself
    data of a former ensemble        all nodes of the file

A new node cannot tell a new ensemble from one that grows. If all nodes are new, node 1 and another
one begin the ensemble. If node 1 has data, it leads an ensemble already. Then its configuration has
a higher version, and the new nodes take it over and follow. New nodes never form an ensemble
without node 1, so they cannot begin an empty one beside the data of node 1. Nor do those that an
ensemble of three grows by: it would still need node 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from topology.ensemble.members import Membership

Found = Literal["nothing", "single", "ensemble"]
"""Data that a node has without a recorded configuration."""

INIT_TICKS: Final = 20
"""Ticks that a node may take to fetch its leader's state (initLimit)."""
SYNC_TICKS: Final = 10
"""Ticks that a node may lag before the others continue without it (syncLimit)."""
ELECTION_PAUSE_MS_MAX: Final = 5_000
"""Most milliseconds between two attempts of a node to find a leader; ZooKeeper's own is 60,000."""

_OF_MEMBERS: Final = re.compile(r"^(server\.\d+|clientPort|clientPortAddress)=")
_SET_HERE: Final = re.compile(r"^(initLimit|syncLimit)=")


def members_at_start(
    wanted: Mapping[int, str], recorded: Membership | None, found: Found
) -> Membership:
    """Return the members that a node starts with; `wanted` are the addresses of the file."""
    if recorded is not None:
        addresses = {n: wanted.get(n, each) for n, each in recorded.members.items()}
        return Membership(
            members=addresses, version=recorded.version, is_weighted=recorded.is_weighted
        )
    if found == "single" or len(wanted) == 1:
        return Membership(members={1: wanted[1]})
    return Membership(members=wanted, is_weighted=found == "nothing")


def start_config(template: str, dynamic_file: str, super_digest: str) -> str:
    """Return the config file of a node whose members stand in another file.

    `template` is the config of a server or node with a fixed number of members. `super_digest` is
    the hash of the user that may change the members.
    """
    kept = [
        line
        for line in template.splitlines()
        if not _OF_MEMBERS.match(line) and not _SET_HERE.match(line)
    ]
    added = {
        "initLimit": INIT_TICKS,
        "syncLimit": SYNC_TICKS,
        "standaloneEnabled": "false",
        "reconfigEnabled": "true",
        "fastleader.maxNotificationInterval": ELECTION_PAUSE_MS_MAX,
        "DigestAuthenticationProvider.superDigest": super_digest,
        "dynamicConfigFile": dynamic_file,
    }
    return "".join(f"{line}\n" for line in (*kept, *(f"{k}={v}" for k, v in added.items())))


def setting(config: str, name: str) -> str | None:
    """Return a setting of a config file; None without it. The last one counts."""
    value = None
    for line in config.splitlines():
        key, _, text = line.partition("=")
        if key.strip() == name:
            value = text.strip()
    return value
