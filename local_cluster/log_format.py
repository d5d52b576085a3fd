"""The formats of what a process logs. Pure."""

from __future__ import annotations

from typing import Final, Literal, get_args

LogFormat = Literal["text", "json"]
"""Lines for people, or one JSON object per line."""
LOG_FORMATS: Final[tuple[str, ...]] = get_args(LogFormat)
