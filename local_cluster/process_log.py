"""What a process logs, and how: lines for people, or one JSON object per line.

`--log-format` wins over the settings file. What a process starts inherits its format, by the
environment variable HELIOGRAPH_LOG_FORMAT.
"""

from __future__ import annotations

import argparse
import logging
import os
from typing import Final

from local_cluster.log_format import LOG_FORMATS

FORMAT_VARIABLE: Final = "HELIOGRAPH_LOG_FORMAT"
TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FIELDS: Final = "%(levelname)s %(name)s %(process)d %(message)s"
NAMES: Final = {
    "levelname": "level",
    "name": "logger",
    "process": "pid",
    "exc_info": "exception",
    "stack_info": "stack",
}
"""The keys of a JSON line; `timestamp` is in UTC, by ISO 8601."""


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add `--log-level` and `--log-format`."""
    parser.add_argument("--log-level", default="INFO", type=str.upper, help="Python logging level")
    parser.add_argument("--log-format", choices=LOG_FORMATS, help="default: that of the settings")


def configure_log(level: str, log_format: str | None = None) -> None:
    """Log to standard error from `level` on. Raises ValueError for an unknown level or format."""
    log_format = log_format or os.environ.get(FORMAT_VARIABLE) or "text"
    if log_format not in LOG_FORMATS:
        raise ValueError(f"log format {log_format!r}; known: {', '.join(LOG_FORMATS)}")
    os.environ[FORMAT_VARIABLE] = log_format
    handler = logging.StreamHandler()
    handler.setFormatter(_formatter(log_format))
    logging.basicConfig(level=level, handlers=[handler])


def _formatter(log_format: str) -> logging.Formatter:
    if log_format == "json":
        from pythonjsonlogger.json import JsonFormatter  # few processes need it

        return JsonFormatter(FIELDS, rename_fields=NAMES, timestamp=True)
    return logging.Formatter(TEXT)
