"""The phases of docs/operations/secure-a-running-cluster.md, as edits of its topology file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

CHAPTER: Final = Path(__file__).parents[2] / "docs" / "operations" / "secure-a-running-cluster.md"
HOSTS: Final = ("127.0.1.1", "127.0.1.2", "127.0.1.3")
PORT: Final = re.compile(r"\b(?:2181|9[1-3]0[1-3])\b")


def blocks(kind: str) -> list[str]:
    """Return the blocks of a kind, in order."""
    return re.findall(rf"```{kind}\n(.*?)```", CHAPTER.read_text(), re.DOTALL)


def texts(ports: Sequence[int]) -> list[str]:
    """Return the file as it runs, and as each phase leaves it, with other ports.

    `ports` are those of ZooKeeper, of each listener of three brokers, and of the aggregate.
    """
    (text,) = blocks("yaml")
    found = [text]
    for diff in blocks("diff"):
        text = _edited(text, diff)
        found.append(text)
    names = ("2181", "9101", "9102", "9103", "9201", "9202", "9203", "9301")
    others = dict(zip(names, map(str, ports), strict=True))
    return [PORT.sub(lambda match: others[match[0]], each) for each in found]


def on_hosts(text: str) -> str:
    """Return the file with each broker on a host of its own, and the rest on the first host."""
    for number, name in enumerate(HOSTS, 1):
        text = text.replace(f"{{id: {number}, ports", f"{{id: {number}, host: {name}, ports")
    first = f"host: {HOSTS[0]}"
    text = text.replace("{name: zookeeper, ", f"{{name: zookeeper, {first}, ")
    return text.replace("{id: 1, port:", f"{{id: 1, {first}, port:")


def _edited(text: str, diff: str) -> str:
    """Apply the hunks of a diff, each to the only place that it fits."""
    for hunk in diff.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        new = "".join(line[1:] for line in lines if line[0] in " +")
        assert text.count(old) == 1, f"{text.count(old)} places fit:\n{old}"
        text = text.replace(old, new)
    return text
