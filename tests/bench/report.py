"""What runs of a bench found: added together, as Markdown and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tests.bench.model import Row, Sample
from tests.bench.table import KAFKA_AND_OURS, Comparison, lines_of, markdown_curve, markdown_table


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run measured, or several that were added together."""

    title: str
    commands: Sequence[str]
    machine: Mapping[str, str]
    settings: Mapping[str, str]
    rows: Sequence[Row]
    samples: Sequence[Sample]
    comparison: Comparison = KAFKA_AND_OURS
    failures: Sequence[str] = ()
    """Rows that were not measured, and why."""

    def added_to(self, earlier: Mapping[str, Any]) -> Report:
        """This report with the rows of an earlier one's JSON that were not measured again."""
        again = {(sample.row, sample.side) for sample in self.samples}
        before = [Sample(**sample) for sample in earlier["samples"]]
        kept = [sample for sample in before if (sample.row, sample.side) not in again]
        return replace(
            self,
            commands=[*earlier["commands"], *self.commands],
            settings={**earlier["settings"], **self.settings},
            samples=[*kept, *self.samples],
        )

    def markdown(self) -> str:
        """Ready to paste into a README; rows that were not measured are left out."""
        table_rows = [row for row in self.rows if not row.curve]
        curves = dict.fromkeys(row.curve for row in self.rows if row.curve)
        lines = lines_of(table_rows, self.samples, self.comparison)
        parts = [
            f"{self.title}: " + "\n".join(f"`{command}`" for command in self.commands),
            "\n".join(f"- {name}: {value}" for name, value in self.machine.items()),
            "\n".join(f"- {name}: {value}" for name, value in self.settings.items()),
            "\n".join(f"- **failed**: {failure}" for failure in self.failures),
            markdown_table(lines, self.comparison),
            *(markdown_curve(curve, self.rows, self.samples) for curve in curves),
        ]
        return "\n\n".join(part for part in parts if part)

    def json(self) -> dict[str, Any]:
        """The lines of the table, and every repeat behind them."""
        lines = lines_of(self.rows, self.samples, self.comparison)
        return {
            "title": self.title,
            "commands": list(self.commands),
            "machine": dict(self.machine),
            "settings": dict(self.settings),
            "lines": [asdict(line) for line in lines],
            "samples": [asdict(sample) for sample in self.samples],
        }
