"""Whether the environment asks for a push of metrics, by OpenTelemetry's standard variables."""

from __future__ import annotations

import os
from typing import Final

_EXPORTER: Final = "OTEL_METRICS_EXPORTER"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")


def is_push_wanted() -> bool:
    """Return whether the environment asks for a push."""
    wanted = os.environ.get(_EXPORTER)
    if wanted:
        return wanted != "none"
    return any(os.environ.get(name) for name in _ENDPOINTS)
