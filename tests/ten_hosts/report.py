"""The result of a campaign, as JSON and as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.ten_hosts.host import Call


@dataclass
class Step:
    """One step of the life of the deployment."""

    name: str
    seconds: float = 0.0
    acknowledged: int = 0
    """Records that producers got acknowledged meanwhile."""
    longest_silence_s: Mapping[str, float] = field(default_factory=dict)
    """Longest time without an acknowledgement in a datacenter."""
    calls: list[Call] = field(default_factory=list)
    """The commands that were run."""


@dataclass
class Result:
    """What a campaign did and found."""

    machine: Mapping[str, Any]
    steps: list[Step] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    is_complete: bool = False
    """Whether every step was done and the records were counted."""

    @property
    def is_well(self) -> bool:
        """Whether the campaign came to its end and nothing is wrong."""
        return self.is_complete and not self.findings


def as_json(result: Result) -> dict[str, Any]:
    """Return the whole result."""
    return {
        "machine": dict(result.machine),
        "is_well": result.is_well,
        "is_complete": result.is_complete,
        "findings": result.findings,
        "figures": result.figures,
        "steps": [
            {
                "name": step.name,
                "seconds": round(step.seconds, 1),
                "acknowledged": step.acknowledged,
                "longest_silence_s": {
                    name: round(seconds, 1) for name, seconds in step.longest_silence_s.items()
                },
                "commands": [
                    {
                        "host": call.host,
                        "command": f"heliograph {call.words}",
                        "seconds": round(call.seconds, 1),
                        "exit_code": call.exit_code,
                    }
                    for call in step.calls
                ],
            }
            for step in result.steps
        ],
    }


def as_markdown(result: Result) -> str:
    """Return the tables of a page."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: Result) -> Iterator[str]:
    yield ", ".join(f"{name} {value}" for name, value in result.machine.items())
    yield ""
    yield "| step | s | records acknowledged | longest time without one, s | commands |"
    yield "|---|---:|---:|---|---|"
    for step in result.steps:
        silence = ", ".join(
            f"{name} {seconds:.1f}" for name, seconds in step.longest_silence_s.items()
        )
        yield (
            f"| {step.name} | {step.seconds:.0f} | {step.acknowledged:,} | {silence} "
            f"| {_counted(step.calls)} |"
        )
    yield ""
    yield "| at the end | |"
    yield "|---|---:|"
    for name, value in result.figures.items():
        yield f"| {name} | {value:,} |" if isinstance(value, int) else f"| {name} | {value} |"
    yield ""
    if not result.is_complete:
        yield "The campaign did not come to its end."
    yield from (f"- {each}" for each in result.findings)
    if result.is_well:
        yield "No findings."


def _counted(calls: Sequence[Call]) -> str:
    """Return the first words of the commands, each with how often it was run."""
    counts: dict[str, int] = {}
    for call in calls:
        name = call.words.split(" ")[0]
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{name} x {count}" for name, count in counts.items())
