"""What a planted fault is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests.planted.planting import Change


class PlantedFault(NamedTuple):
    """A fault that the product once had, or must never have."""

    title: str
    """What goes wrong."""
    changes: Mapping[str, Change]
    """By module name."""
