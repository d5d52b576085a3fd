"""The exporters of OpenTelemetry that its standard variables name."""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import Any, Final

_OTLP: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""OTEL_EXPORTER_OTLP_PROTOCOL -> name of the exporter."""


def load_exporter(group: str, name: str, remedy: str) -> Any:
    """Return the exporter of a group of entry points; `otlp` is that of the protocol.

    Raises ValueError with `remedy` if it is not installed.
    """
    if name == "otlp":
        protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
        name = _OTLP.get(protocol, f"otlp over {protocol}")
    found = next(iter(entry_points(group=group, name=name)), None)
    if found is None:
        raise ValueError(
            f"the OpenTelemetry exporter {name!r} is not installed: install "
            f"opentelemetry-exporter-otlp, or {remedy}"
        )
    return found.load()()
