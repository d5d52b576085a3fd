"""Plan, status and the progress of `up` on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.status import Status as Spinner
from rich.table import Table

from topology.deployment.plan import Step
from topology.deployment.rights_difference import RightsChange
from topology.hosts.show import COLUMNS, file_lines_of_hosts, host_rows
from topology.shared_file.show import file_lines
from topology.status.blocked import ANSWERS
from topology.status.blocked import UNKNOWN as NOT_KNOWN
from topology.status.completeness import sentence
from topology.status.diagnosis import problem_lines
from topology.status.held_back import held_back_lines
from topology.status.probes import probe_sentence
from topology.status.streams import sentence as stream_sentence

UNKNOWN = "-"
PIPED_COLUMNS = 1_000
RIGHTS_SHOWN_MAX = 8
"""Changes of users, ACLs and quotas of one cluster that `up` lists; `plan` lists all of them."""


class UpProgress:
    """One line on standard error with what `up` waits for."""

    def __init__(self, *, enabled: bool) -> None:
        self._console = Console(stderr=True, quiet=not enabled, highlight=False)
        self._spinner: Spinner | None = None

    def __enter__(self) -> UpProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def plan(self, name: str, steps: list[Step]) -> None:
        """Show the steps; a first start is one line."""
        if not steps:
            self._console.print(f"{name}: nothing to start, change or stop")
        elif all(step.action == "start" for step in steps) and len(steps) > 1:
            labels = ", ".join(step.label for step in steps)
            self._console.print(f"{name}: starting {labels}", markup=False)
        else:
            for step in steps:
                self._console.print(step.sentence(), markup=False)

    def rights(self, cluster: str, changes: Sequence[RightsChange]) -> None:
        """Show the users, ACLs and quotas that change; many are one line."""
        self.stop()
        if len(changes) > RIGHTS_SHOWN_MAX:
            self._console.print(f"{cluster}: {len(changes)} changes of users, ACLs and quotas")
            return
        for each in changes:
            self._console.print(f"{cluster}: {each.sentence()}", markup=False, soft_wrap=True)

    def status(self, document: Mapping[str, Any]) -> None:
        """Show what does not run yet."""
        waiting = [f"{each['subject']} ({each['state']})" for each in document["problems"]]
        self._spin(f"waiting for {', '.join(waiting) or 'a response of each process'}")

    def roll(self, reasons: Sequence[str]) -> None:
        """Show why the next broker of a rolling restart waits."""
        more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
        self._spin(f"waiting: {reasons[0]}{more}")

    def _spin(self, text: str) -> None:
        if self._spinner is None:
            self._spinner = self._console.status("")
            self._spinner.start()
        self._spinner.update(text)

    def stop(self) -> None:
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None


def print_bootstraps(document: Mapping[str, Any]) -> None:
    """Print where clients connect, and every problem."""
    table = plain_table("cluster", "kind", "bootstrap")
    for cluster in document["clusters"]:
        table.add_row(cluster["name"], cluster["kind"], cluster["bootstrap"])
    console = plain_console()
    console.print(f"{document['name']}: {document['state']}")
    console.print(table)
    _print_endpoints(console, document)
    _print_elsewhere(console, document)
    _print_problems(console, document)


def print_status(document: Mapping[str, Any]) -> None:
    """Print clusters with brokers, links, URLs of workers and aggregators, and every problem."""
    console = plain_console()
    supervisor = document["supervisor"]
    pid = f" (supervisor pid {supervisor['pid']})" if supervisor is not None else ""
    console.print(f"{document['name']}: {document['state']}{pid}")
    console.print(_broker_table(document["clusters"]))
    if document["links"]:
        console.print(_link_table(document["links"]))
    for link in document["links"]:
        if link["probe"] is not None:
            console.print(probe_sentence(link["name"], link["probe"]), soft_wrap=True)
        for line in held_back_lines(link):
            console.print(line, soft_wrap=True, markup=False)
    for entry in document.get("completeness", ()):
        console.print(sentence(entry), soft_wrap=True, markup=False)
    for entry in document.get("streams", ()):
        console.print(stream_sentence(entry), soft_wrap=True, markup=False)
    for line in file_lines(document["file"]) if "file" in document else ():
        console.print(line, soft_wrap=True, markup=False)
    _print_endpoints(console, document)
    for daemon in document["daemons"]:
        if daemon["state"] == "running" and daemon["restarts"]:
            console.print(
                f"{daemon['label']}: running, after {daemon['restarts']} restarts,"
                f" log {daemon['log']}",
                soft_wrap=True,
            )
    _print_elsewhere(console, document)
    _print_problems(console, document)


def _print_elsewhere(console: Console, document: Mapping[str, Any]) -> None:
    """Print the processes of other hosts, as their supervisors and as connections from here show
    them. What a supervisor reports and a connection confirms is one row."""
    hosts = document.get("hosts", ())
    if hosts:
        table = plain_table(*COLUMNS)
        for row in host_rows(hosts):
            table.add_row(*row)
        console.print(table)
        for line in file_lines_of_hosts(hosts):
            console.print(line, soft_wrap=True)
    known = {each["host"] for each in hosts if each["state"] == "answers"}
    left = [
        each
        for each in document.get("elsewhere", ())
        if each["host"] not in known or each["state"] not in (ANSWERS, NOT_KNOWN)
    ]
    if not left:
        return
    table = plain_table("on other hosts", "host", "state", "reason")
    for each in left:
        table.add_row(each["label"], each["host"], each["state"], each["reason"] or "")
    console.print(table)


def _print_endpoints(console: Console, document: Mapping[str, Any]) -> None:
    for key, label in (("mirrors", "mirror into"), ("aggregators", "aggregator of")):
        for each in document[key]:
            console.print(f"{label} {each['cluster']}: {_text(each['url'])} {each['state']}")


def _print_problems(console: Console, document: Mapping[str, Any]) -> None:
    if document["problems"]:
        console.print("not well:")
    for line in problem_lines(document["problems"]):
        console.print(f"  {line}", soft_wrap=True)


def print_gaps(gaps: Sequence[Mapping[str, Any]]) -> None:
    """Print one line per gap."""
    console = plain_console()
    if not gaps:
        console.print("nothing was skipped")
        return
    table = plain_table("link", "partition", "from", "to", "records", "reason", "noticed", "detail")
    for gap in gaps:
        noticed = datetime.fromtimestamp(gap["noticed_at_ms"] / 1000, UTC)
        table.add_row(
            gap["link"],
            f"{gap['topic']}-{gap['partition']}",
            str(gap["source_from"]),
            _text(gap["source_to"]),
            _text(gap["records_count"]),
            gap["reason"],
            noticed.strftime("%Y-%m-%dT%H:%M:%SZ"),
            gap["detail"],
        )
    console.print(table)


def plain_console() -> Console:
    """Return standard output without markup; lines have any width if a program reads it."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = PIPED_COLUMNS
    return console


def plain_table(*columns: str) -> Table:
    """Return a table without lines, in which no text is cut off."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _broker_table(clusters: list[Mapping[str, Any]]) -> Table:
    table = plain_table("cluster", "kind", "broker", "address", "pid", "state", "http")
    for cluster in clusters:
        brokers = cluster["brokers"]
        if not brokers:
            table.add_row(cluster["name"], cluster["kind"], UNKNOWN, cluster["bootstrap"])
        for broker in brokers or []:
            table.add_row(
                cluster["name"],
                cluster["kind"],
                _text(broker["id"]),
                f"{broker['host']}:{broker['port']}",
                _text(broker["pid"]),
                broker["state"],
                _text(broker["url"]),
            )
    return table


def _link_table(links: list[Mapping[str, Any]]) -> Table:
    table = plain_table("link", "from", "to", "state", "topics", "partitions", "lag", "lag s")
    for link in links:
        figures = [link[key] for key in ("topics", "partitions", "lag_records", "lag_seconds")]
        table.add_row(
            link["name"], link["source"], link["target"], link["state"], *map(_text, figures)
        )
    return table


def _text(value: Any) -> str:
    """Return a value as text; unknown is a dash, never 0."""
    if value is None:
        return UNKNOWN
    return f"{value:.1f}" if isinstance(value, float) else str(value)
