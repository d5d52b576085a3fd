"""One question of the catalogue: a SQL statement over named inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A statement whose inputs are in braces and whose parameters begin with a colon."""

    name: str
    about: str
    """One sentence: what a row says."""
    statement: str
    inputs: tuple[str, ...] = ("records",)
    """Tables of the data source."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Defaults by name; their types are those of the values to pass."""
    is_streamable: bool = False
    """Whether the input may be a stream, in output mode `append` or `update`."""

    def __call__(self, *frames: DataFrame, **parameters: Any) -> DataFrame:
        """Answer from one frame per input. Raises TypeError for other frames or parameters."""
        if len(frames) != len(self.inputs):
            raise TypeError(f"{self.name} takes the frames {', '.join(self.inputs)}")
        unknown = sorted(parameters.keys() - self.parameters.keys())
        if unknown:
            known = ", ".join(self.parameters) or "none"
            raise TypeError(f"{self.name} has no parameter {unknown[0]}; there are: {known}")
        values = {**self.parameters, **parameters}
        session = frames[0].sparkSession
        inputs = dict(zip(self.inputs, frames, strict=True))
        return session.sql(self.statement, values, **inputs)
