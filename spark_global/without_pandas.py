"""Spares a command the import of pandas."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

_PANDAS: Final = "pandas"


class NoPandas:
    """Finds no pandas."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:
        if fullname == _PANDAS:
            raise ModuleNotFoundError("this command does without pandas", name=_PANDAS)


def without_pandas() -> None:
    """Let nobody import pandas in this process from now on.

    PyArrow imports it to tell its frames from arrays, which takes a third of a second. PyArrow and
    DuckDB do without it where it is not installed.
    """
    if not any(isinstance(each, NoPandas) for each in sys.meta_path):
        sys.meta_path.insert(0, NoPandas())
