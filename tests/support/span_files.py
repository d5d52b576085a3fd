"""An exporter of spans that is installed like OTLP's, and appends spans to a file as JSON lines."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

EXPORTER = "file"
_MODULE = """\
import os
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

class FileExporter(SpanExporter):
    def export(self, spans):
        with open(os.environ["SPANS_FILE"], "a") as file:
            file.writelines(span.to_json(indent=None) + "\\n" for span in spans)
        return SpanExportResult.SUCCESS

class RefusingExporter(SpanExporter):
    def export(self, spans):
        return SpanExportResult.FAILURE
"""
_ENTRY_POINTS = """\
[opentelemetry_traces_exporter]
file = spans_to_file:FileExporter
refusing = spans_to_file:RefusingExporter
"""


class SpanFile:
    """The file that every process with this environment exports to."""

    def __init__(self, directory: Path, environment: pytest.MonkeyPatch) -> None:
        self.path = directory / "spans.jsonl"
        package = directory / "exporters"
        about = package / "spans_to_file-1.0.dist-info"
        about.mkdir(parents=True)
        (package / "spans_to_file.py").write_text(_MODULE)
        (about / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: spans-to-file\nVersion: 1.0\n"
        )
        (about / "entry_points.txt").write_text(_ENTRY_POINTS)
        known = os.environ.get("PYTHONPATH")
        environment.setenv("PYTHONPATH", f"{package}{os.pathsep}{known}" if known else str(package))
        environment.setenv("SPANS_FILE", str(self.path))
        environment.setenv("OTEL_TRACES_EXPORTER", EXPORTER)

    def spans(self) -> list[dict[str, Any]]:
        """Return the exported spans, in the order of their export."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]
