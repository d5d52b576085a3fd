"""The files that a node of the supervisor starts with, in its data directory.

    config/zookeeper.cfg           written at each start; ZooKeeper changes `dynamicConfigFile`
    config/zookeeper.cfg.dynamic   the members at the first start; then with a version in its name
    config/reconfig-secret         password of the user that may change the members, at this node
    version-2/                     snapshots and transaction logs

Guarantees: a node that is killed at any time starts with the members that it had. The password is
readable by its owner only, and no other file has it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from topology.deployment.state_dir import write_atomically
from topology.ensemble.members import Membership, decode_membership
from topology.ensemble.start_form import Found, members_at_start, setting, start_config

USER: Final = "heliograph"
"""Name of the user that may change the members."""
CONFIG_NAME: Final = "zookeeper.cfg"
DIRECTORY: Final = "config"
SECRET_NAME: Final = "reconfig-secret"
_SECRET_BYTES: Final = 32
_SNAPSHOTS: Final = "version-2"
_DYNAMIC: Final = f"{CONFIG_NAME}.dynamic"
_NEXT: Final = f"{_DYNAMIC}.next"
"""Members that are proposed; ZooKeeper reads it at its start, and deletes it."""
_VERSION: Final = re.compile(re.escape(_DYNAMIC) + r"\.([0-9a-f]+)$")


def write_node_files(template: str, wanted: Mapping[int, str], former: Path | None) -> Path:
    """Write the files of a node, and return its config file. Raises OSError or ValueError.

    `wanted` has the addresses of all nodes of the topology file. An inner port 0 stands for a
    free one. `former` is the data directory that the node had as the only one.
    """
    place = setting(template, "dataDir")
    if place is None:
        raise ValueError("the config has no dataDir")
    data = Path(place)
    if former is not None:
        _take_over(former, data)
    own = data / DIRECTORY
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    recorded, name = _recorded(own)
    found = _found(data, len(wanted))
    if found == "nothing" and recorded is not None and recorded.version == 0:
        recorded = None  # no ensemble has ever agreed on it, and the file may have changed
    members = members_at_start(wanted, recorded, found)
    dynamic = own / name
    write_atomically(dynamic, with_free_ports(members).text())
    config = own / CONFIG_NAME
    _write_private(config, start_config(template, str(dynamic), super_digest(_secret(own))))
    for each in own.glob(f"{_DYNAMIC}*"):
        if each.name not in (name, _NEXT):
            each.unlink()
    return config


def needs_first_node(data: Path) -> bool:
    """Return whether a node runs only with node 1, because its ensemble is new (start_form.py).

    Raises OSError or ValueError for files that cannot be read.
    """
    recorded, _ = _recorded(data / DIRECTORY)
    if recorded is None:
        return not _has_data(data)
    return recorded.is_weighted


def read_secret(data: Path) -> str:
    """Return the password of the user that may change the members. Raises OSError."""
    return (data / DIRECTORY / SECRET_NAME).read_text().strip()


def super_digest(secret: str) -> str:
    """Return the hash by which ZooKeeper knows the user."""
    digest = hashlib.sha1(f"{USER}:{secret}".encode()).digest()
    return f"{USER}:{base64.b64encode(digest).decode()}"


def with_free_ports(members: Membership) -> Membership:
    """Return the members with free ports of the loopback for each inner port 0.

    They are free now. If another process is faster, the server ends and starts with others.
    """
    found = {}
    for number, each in members.members.items():
        if ":0:0:" in each:
            with socket.socket() as first, socket.socket() as second:
                ports = []
                for held in (first, second):
                    held.bind(("127.0.0.1", 0))
                    ports.append(held.getsockname()[1])
            each = each.replace(":0:0:", f":{ports[0]}:{ports[1]}:")
        found[number] = each
    return Membership(members=found, version=members.version, is_weighted=members.is_weighted)


def _recorded(own: Path) -> tuple[Membership | None, str]:
    """Return the members of the last configuration and the name of their file."""
    try:
        pointer = setting((own / CONFIG_NAME).read_text(), "dynamicConfigFile")
    except FileNotFoundError:
        pointer = None
    if pointer is None:
        return None, _DYNAMIC
    name = Path(pointer).name  # the directory may have moved
    match = _VERSION.match(name)
    text = (own / name).read_text()
    return decode_membership(text, int(match.group(1), 16) if match is not None else 0), name


def _found(data: Path, nodes: int) -> Found:
    if not _has_data(data):
        return "nothing"
    return "ensemble" if nodes > 1 else "single"


def _has_data(data: Path) -> bool:
    return any((data / _SNAPSHOTS).glob("[sl]*"))  # snapshot.*, log.*


def _take_over(former: Path, data: Path) -> None:
    """Move the data of a one-node server, unless this was done. Raises OSError.

    The snapshots move last: until then the next start does the same again.
    """
    if not _has_data(former) or (data / _SNAPSHOTS).exists():
        return
    data.mkdir(parents=True, exist_ok=True)
    own = data / DIRECTORY
    if not (own / CONFIG_NAME).exists():
        if (former / DIRECTORY / CONFIG_NAME).exists():
            (former / DIRECTORY).rename(own)
        else:
            own.mkdir(mode=0o700, exist_ok=True)
            # It was a server of a former version: only the members count here, not the addresses.
            write_atomically(own / _DYNAMIC, Membership(members={1: "former"}).text())
            write_atomically(own / CONFIG_NAME, f"dynamicConfigFile={own / _DYNAMIC}\n")
    (former / _SNAPSHOTS).rename(data / _SNAPSHOTS)


def _secret(own: Path) -> str:
    """Return the password; the first start chooses it. Raises OSError."""
    path = own / SECRET_NAME
    if not path.exists():
        _write_private(path, f"{secrets.token_hex(_SECRET_BYTES)}\n")
    return path.read_text().strip()


def _write_private(path: Path, text: str) -> None:
    """Replace a file that only its owner can read. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
