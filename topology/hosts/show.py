"""What other hosts run and would change, as rows and lines for people. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from topology.hosts.answers import one_line

COLUMNS = ("host", "process", "state", "pid", "reason")
NOTHING = "-"

Entry = Mapping[str, Any]


def host_rows(hosts: Sequence[Entry]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a table of `COLUMNS`: one for each process, or why a host is silent."""
    for each in hosts:
        if each["state"] != "answers":
            yield each["host"], NOTHING, each["state"], NOTHING, each["reason"] or ""
        elif not each["daemons"]:
            yield each["host"], NOTHING, "stopped", NOTHING, "nothing of it runs there"
        for row in each["daemons"]:
            pid = NOTHING if row["pid"] is None else str(row["pid"])
            again = f"it was started again {row['restarts']} times" if row["restarts"] else ""
            yield each["host"], one_line(row["label"]), one_line(row["state"]), pid, again


def file_lines_of_hosts(hosts: Sequence[Entry]) -> Iterator[str]:
    """Yield a line for each host whose file is not the newest one."""
    for each in hosts:
        if each["file"] == "behind":
            yield f"{each['host']} is behind: it runs generation {each['generation']} of the file"
        elif each["file"] == "differs":
            yield f"{each['host']} runs another file, which is no known generation"


def plan_lines(hosts: Sequence[Entry]) -> Iterator[str]:
    """Yield the lines of a plan: the steps on each host, or why they are unknown."""
    for each in hosts:
        host, steps = each["host"], each["steps"]
        if each["state"] != "answers":
            yield f"{host}: unknown ({each['state']}: {each['reason']})"
        elif steps is None:
            yield f"{host}: unknown, as this version cannot read the file that it runs"
        elif not steps:
            yield f"{host}: nothing to do"
        for step in steps or ():
            why = f" ({'; '.join(step['reasons'])})" if step["reasons"] else ""
            yield f"{host}: {step['action']} {one_line(step['label'])}{why}"
        yield from (f"{host}: {line}" for line in refusal_lines(each["refusals"] or ()))
        yield from (f"{host}: note: {line}" for line in each["warnings"] or ())
        if each["unchecked"]:
            yield f"{host}: what `up` would refuse there is unknown: {each['unchecked']}"
    yield from file_lines_of_hosts(hosts)


def refusal_lines(refusals: Iterable[Entry]) -> Iterator[str]:
    """Yield the lines of what `up` would refuse."""
    for each in refusals:
        yield f"`up` refuses this: {each['reason']}"
        yield from (f"    {line}" for line in each["details"])
