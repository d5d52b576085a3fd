"""The result of an audit, as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console

from mirror_maker.formats.verdicts import FAULTS, Verdict
from topology.cli.show import UNKNOWN, plain_console, plain_table

Document = Mapping[str, Any]
FAULTS_SHOWN_MAX: Final = 20
"""Most faults that are printed for one link; the JSON has all of them."""
_FAULT_NAMES: Final = tuple(verdict.value for verdict in Verdict if verdict in FAULTS)
_OTHER_NAMES: Final = tuple(verdict.value for verdict in Verdict if verdict not in FAULTS)


def print_audit(links: Sequence[Document]) -> None:
    """Print every link: counts per partition, then each fault with its offsets."""
    console = plain_console()
    if not links:
        console.print("there are no links")
    for link in links:
        _print_link(console, link)


def _print_link(console: Console, link: Document) -> None:
    title = f"link {link['link']}: {link['source']} -> {link['target']}"
    if not link["partitions"]:
        console.print(f"{title}: nothing is mapped yet")
        return
    read = link.get("records_read")
    age = link["age_seconds"]
    told = "not audited yet" if age is None else f"audited {age:.0f} s ago"
    console.print(f"{title}, {told if read is None else 'both logs read'}")
    _print_counts(console, link["partitions"] if read is None else read, with_place=read is None)
    for failure in _failures(link):
        console.print(f"  {failure}", soft_wrap=True)
    lines = list(_finding_lines(link) if read is None else _fault_lines(read))
    if lines:
        console.print("what is wrong:")
    for line in lines[:FAULTS_SHOWN_MAX]:
        console.print(f"  {line}", soft_wrap=True)
    if len(lines) > FAULTS_SHOWN_MAX:
        console.print(f"  and {len(lines) - FAULTS_SHOWN_MAX} more; -o json has them all")


def _print_counts(console: Console, partitions: Sequence[Document], *, with_place: bool) -> None:
    counts = [each["records"] for each in partitions]
    names = [
        name
        for name in (*_OTHER_NAMES, *_FAULT_NAMES)
        if name == Verdict.COMPLETE or any(name in each for each in counts)
    ]
    places = ("audited to", "waiting") if with_place else ()
    table = plain_table("partition", "copy", *names, *places)
    for each, count in zip(partitions, counts, strict=True):
        row = [f"{each['topic']}-{each['partition']}", each["target_topic"]]
        row += [str(count.get(name, 0)) for name in names]
        if with_place:
            audited_to = each["audited_to"]
            row += [
                UNKNOWN if audited_to is None else str(audited_to),
                str(each["batches_waiting"]),
            ]
        table.add_row(*row)
    console.print(table)


def _failures(link: Document) -> Iterator[str]:
    if link["problem"] is not None:
        yield link["problem"]


def _finding_lines(link: Document) -> Iterator[str]:
    for each in link["partitions"]:
        for finding in each["findings"]:
            place = _offsets("target offset", finding["target_from"], finding["target_to"])
            yield (
                f"{each['topic']}-{each['partition']}: {finding['verdict']}"
                f" at {place}: {finding['detail']}"
            )


def _fault_lines(read: Sequence[Document]) -> Iterator[str]:
    for each in read:
        if each["problem"] is not None:
            yield f"{each['topic']}-{each['partition']}: not read to its end: {each['problem']}"
        for fault in each["faults"]:
            places = [
                f"{side} offset {fault[f'{side}_offset']}"
                for side in ("source", "target")
                if fault[f"{side}_offset"] is not None
            ]
            yield (
                f"{each['topic']}-{each['partition']}: {fault['verdict']} at"
                f" {', '.join(places)}: {fault['detail']}{_payloads(fault)}"
            )


def _payloads(fault: Document) -> str:
    shown = [
        f"{side} has key {record['key']!r}, value {record['value']!r}"
        for side in ("source", "target")
        if (record := fault[f"{side}_record"]) is not None
    ]
    return f" ({'; '.join(shown)})" if shown else ""


def _offsets(label: str, start: int, end: int) -> str:
    return f"{label} {start}" if end - start <= 1 else f"{label}s {start} to {end - 1}"
