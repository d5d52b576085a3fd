"""The files of `heliograph dashboards`: their names and texts, and writing them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from topology.dashboards.alerts import ALERTS, rules
from topology.dashboards.boards import BOARDS
from topology.dashboards.panels import board_json
from topology.dashboards.targets import Process, scrape_targets

RULES: Final = "heliograph-rules.yml"
TARGETS: Final = "heliograph-targets.json"
SCRAPE_INTERVAL: Final = "15s"
DOCUMENTS: Final = Path(__file__).parents[2] / "docs" / "operations" / "runbooks"
"""Where a checkout has the runbooks."""


def runbooks_here() -> str:
    """Return the address of this installation's runbooks, or a relative one."""
    return DOCUMENTS.as_uri() if DOCUMENTS.is_dir() else "runbooks"


def monitoring_files(
    status: Mapping[str, Any],
    runbooks: str,
    access: Mapping[str, Any],
    elsewhere: Iterable[Process] = (),
) -> dict[str, str]:
    """Return the text of each file by its name, for the status document of a deployment.

    `access` is how Prometheus authenticates itself (`scrape_access`). `elsewhere` has the processes
    of other hosts.
    """
    files = {f"{board.uid}.json": _json(board_json(board)) for board in BOARDS}
    files[TARGETS] = _json(scrape_targets(status, elsewhere))
    files[RULES] = _yaml(rules(ALERTS, runbooks))
    files["prometheus.yml"] = _yaml(
        {
            "global": {"scrape_interval": SCRAPE_INTERVAL, "evaluation_interval": SCRAPE_INTERVAL},
            "rule_files": [RULES],
            "scrape_configs": [
                {"job_name": "heliograph", "file_sd_configs": [{"files": [TARGETS]}], **access}
            ],
        }
    )
    return files


def write_files(directory: Path, files: Mapping[str, str]) -> None:
    """Write the files, each as a whole. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        partial = directory / f"{name}.partial"
        partial.write_text(text)
        partial.replace(directory / name)


def _json(document: Any) -> str:
    return json.dumps(document, indent=2) + "\n"


def _yaml(document: Any) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    text = io.StringIO()
    yaml.dump(document, text)
    return text.getvalue()
