"""The exporters of spans that the environment names.

OpenTelemetry's own variables apply: OTEL_TRACES_EXPORTER names the exporters, separated by commas,
and `otlp` is the default. OTEL_EXPORTER_OTLP_PROTOCOL and OTEL_EXPORTER_OTLP_ENDPOINT are OTLP's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from opentelemetry.sdk.trace.export import SpanExporter

from local_cluster.monitoring.push.exporters import load_exporter

_EXPORTERS: Final = "opentelemetry_traces_exporter"
"""The group of entry points under which exporters register."""


def open_exporters() -> list[SpanExporter]:
    """Return the exporters; [] for `none`. Raises ValueError for one that is not installed."""
    return list(_exporters(os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"))


def _exporters(wanted: str) -> Iterator[SpanExporter]:
    for name in map(str.strip, wanted.split(",")):
        if name == "none":
            continue
        yield load_exporter(_EXPORTERS, name, "set OTEL_TRACES_EXPORTER to an installed one")
