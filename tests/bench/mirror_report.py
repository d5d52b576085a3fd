"""What runs of the mirror's bench found: added together, as Markdown and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from tests.bench.mirror_model import (
    MIRROR_FIGURES,
    MM2,
    MM2_TUNED,
    OURS,
    OURS_ON_OURS,
    MirrorRow,
    MirrorSample,
    MirrorSide,
)
from tests.bench.model import Wanted
from tests.bench.table import Verdict


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """The samples of one run, or of several that were added together."""

    commands: Sequence[str]
    machine: Mapping[str, str]
    settings: Mapping[str, str]
    samples: Sequence[MirrorSample]

    def added_to(self, earlier: Mapping[str, Any]) -> MirrorReport:
        """This report with the rows of an earlier one's JSON that were not measured again."""
        again = {(sample.row, sample.side) for sample in self.samples}
        kept = [MirrorSample(**sample) for sample in earlier["samples"]]
        return MirrorReport(
            [*earlier["commands"], *self.commands],
            self.machine,
            {**earlier["settings"], **self.settings},
            [sample for sample in kept if (sample.row, sample.side) not in again]
            + list(self.samples),
        )

    def json(self) -> dict[str, Any]:
        return {
            "commands": list(self.commands),
            "machine": dict(self.machine),
            "settings": dict(self.settings),
            "samples": [asdict(sample) for sample in self.samples],
        }

    def markdown(self, rows: Sequence[MirrorRow]) -> str:
        """Ready to paste into a README; rows that were not measured are left out."""
        return "\n\n".join(
            [
                "\n".join(f"`{command}`" for command in self.commands),
                "\n".join(f"- {name}: {value}" for name, value in self.machine.items()),
                "\n".join(f"- {name}: {value}" for name, value in self.settings.items()),
                "\n".join(self._table(rows)),
            ]
        )

    def values(self, row: str, figure: str) -> dict[MirrorSide, list[float]]:
        """Every repeat of one figure, by side."""
        found: dict[MirrorSide, list[float]] = {}
        for sample in self.samples:
            if sample.row == row and figure in sample.figures:
                found.setdefault(sample.side, []).append(sample.figures[figure])
        return found

    def _table(self, rows: Sequence[MirrorRow]) -> list[str]:
        lines = [
            "| work | figure | MM2 | MM2 tuned | ours | ours : tuned | wanted | reached "
            "| ours on ours |",
            "|---|---|---:|---:|---:|---:|---|---|---:|",
        ]
        for row in rows:
            title = row.title
            for name, figure in MIRROR_FIGURES.items():
                values = self.values(row.name, name)
                if not values:
                    continue
                medians = {side: median(each) for side, each in values.items()}
                shown = {
                    **row.left_out,
                    **{side: f"{value:,.{figure.digits}f}" for side, value in medians.items()},
                }
                ratio = ""
                if medians.get(MM2_TUNED) and OURS in medians:
                    ratio = f"{medians[OURS] / medians[MM2_TUNED]:.3f}"
                wanted = row.wanted.get(name, ())
                cells = (
                    title,
                    figure.title,
                    shown.get(MM2, ""),
                    shown.get(MM2_TUNED, ""),
                    shown.get(OURS, ""),
                    ratio,
                    ", ".join(_wanted(each, figure.higher_is_better) for each in wanted),
                    ", ".join(
                        _shown(verdict(each, values, higher_is_better=figure.higher_is_better))
                        for each in wanted
                    ),
                    shown.get(OURS_ON_OURS, ""),
                )
                lines.append(f"| {' | '.join(cells)} |")
                title = ""
        return lines


def verdict(
    wanted: Wanted, values: Mapping[MirrorSide, Sequence[float]], *, higher_is_better: bool
) -> Verdict:
    """Whether ours reaches the bound: "even" where it is missed by less than repeats differ."""
    ours = values.get(OURS)
    theirs = values.get(MM2_TUNED) if wanted.of == "ratio" else [1.0]
    if not ours or not theirs:
        return "not measured"
    limits = [wanted.limit * each for each in theirs]
    if higher_is_better:
        reached, best = median(ours) >= median(limits), max(ours) >= min(limits)
    else:
        reached, best = median(ours) <= median(limits), min(ours) <= max(limits)
    return "yes" if reached else "even" if best else "no"


def _wanted(wanted: Wanted, higher_is_better: bool) -> str:
    of = " of tuned" if wanted.of == "ratio" else ""
    return f"{'>=' if higher_is_better else '<='} {wanted.limit:g}{of}"


def _shown(found: Verdict) -> str:
    return "**no**" if found == "no" else found
