"""The file by which a broker says that it serves, and on which ports."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from local_cluster.settings import BrokerSettings


def write_ready_file(
    settings: BrokerSettings, ports: Mapping[str, int], http_port: int | None
) -> None:
    """Write it as a whole or not at all; `ports` are those of the listeners, by name."""
    path = Path(settings.ready_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "pid": os.getpid(),
        "state": "running",
        "broker_id": settings.broker_id,
        "listeners": dict(ports),
        "http_host": settings.http_host,
        "http_scheme": settings.http_security.scheme,
        "http_port": http_port,
    }
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(content))
    partial.replace(path)
