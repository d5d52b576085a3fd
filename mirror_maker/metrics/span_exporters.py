"""The exporters of spans that the environment names.

OpenTelemetry's own variables apply: OTEL_TRACES_EXPORTER names the exporters, separated by commas,
and `otlp` is the default. OTEL_EXPORTER_OTLP_PROTOCOL and OTEL_EXPORTER_OTLP_ENDPOINT are OTLP's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Final

from opentelemetry.sdk.trace.export import SpanExporter

_EXPORTERS: Final = "opentelemetry_traces_exporter"
"""The group of entry points under which exporters register."""
_OTLP: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""OTEL_EXPORTER_OTLP_PROTOCOL -> name of the exporter."""


def open_exporters() -> list[SpanExporter]:
    """Return the exporters; [] for `none`. Raises ValueError for one that is not installed."""
    return list(_exporters(os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"))


def _exporters(wanted: str) -> Iterator[SpanExporter]:
    for name in map(str.strip, wanted.split(",")):
        if name == "none":
            continue
        if name == "otlp":
            protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
            name = _OTLP.get(protocol, f"otlp over {protocol}")
        found = next(iter(entry_points(group=_EXPORTERS, name=name)), None)
        if found is None:
            raise ValueError(
                f"the OpenTelemetry exporter {name!r} is not installed: install "
                "opentelemetry-exporter-otlp, or set OTEL_TRACES_EXPORTER to an installed one"
            )
        yield found.load()()
