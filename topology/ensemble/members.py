"""The members of an ensemble, as ZooKeeper's dynamic configuration writes them. Pure.

A line is `server.2=HOST:PEER:ELECTION:participant;HOST:CLIENT`. ZooKeeper adds a version: the
transaction that made it the configuration of the ensemble. The highest version wins.

In a weighted configuration node 1 weighs as much as all others. So each of its majorities has
node 1 and another node. Every new node starts with one (start_form.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_LINE = re.compile(r"^(server\.\d+|version|group\.\d+|weight\.\d+)=(.*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The members of an ensemble at one time."""

    members: Mapping[int, str]
    """Addresses of each member by its number: the text after `server.N=`."""
    version: int = 0
    """0 if no ensemble has ever agreed on it."""
    is_weighted: bool = False

    def text(self) -> str:
        """Return the lines of the dynamic configuration, without the version."""
        lines = [f"server.{number}={each}" for number, each in sorted(self.members.items())]
        if self.is_weighted:
            numbers = sorted(self.members)
            lines.append(f"group.1={':'.join(map(str, numbers))}")
            lines += [
                f"weight.{each}={len(numbers) - 1 if each == numbers[0] else 1}" for each in numbers
            ]
        return "".join(f"{line}\n" for line in lines)


def member_address(
    host: str, peer_port: int, election_port: int, client_host: str, client_port: int
) -> str:
    """Return the text after `server.N=`."""
    inner = f"{_bracketed(host)}:{peer_port}:{election_port}"
    return f"{inner}:participant;{_bracketed(client_host)}:{client_port}"


def decode_membership(text: str, version: int | None = None) -> Membership:
    """Read the lines of a dynamic configuration, as a file or a znode has them.

    A file has its version in its name, a znode in its text. Raises ValueError without a member.
    """
    members: dict[int, str] = {}
    found, is_weighted = version or 0, False
    for line in text.splitlines():
        match = _LINE.match(line.strip())
        if match is None:
            continue
        name, value = match.groups()
        if name == "version":
            found = int(value, 16)
        elif name.startswith("server."):
            members[int(name.removeprefix("server."))] = value
        else:
            is_weighted = True
    if not members:
        raise ValueError("a configuration of ZooKeeper without a member")
    return Membership(members=members, version=found, is_weighted=is_weighted)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
