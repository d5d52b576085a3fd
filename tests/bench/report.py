"""What a run found, as Markdown and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.bench.model import Row, Sample
from tests.bench.table import lines_of, markdown_curve, markdown_table


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run measured."""

    title: str
    command: str
    machine: Mapping[str, str]
    settings: Mapping[str, str]
    rows: Sequence[Row]
    samples: Sequence[Sample]

    def markdown(self) -> str:
        """Ready to paste into a README."""
        table_rows = [row for row in self.rows if not row.curve]
        curves = dict.fromkeys(row.curve for row in self.rows if row.curve)
        parts = [
            f"{self.title}: `{self.command}`",
            "\n".join(f"- {name}: {value}" for name, value in self.machine.items()),
            "\n".join(f"- {name}: {value}" for name, value in self.settings.items()),
            markdown_table(lines_of(table_rows, self.samples)),
            *(markdown_curve(curve, self.rows, self.samples) for curve in curves),
        ]
        return "\n\n".join(part for part in parts if part)

    def json(self) -> dict[str, Any]:
        """The lines of the table, and every repeat behind them."""
        return {
            "title": self.title,
            "command": self.command,
            "machine": dict(self.machine),
            "settings": dict(self.settings),
            "lines": [asdict(line) for line in lines_of(self.rows, self.samples)],
            "samples": [asdict(sample) for sample in self.samples],
        }
