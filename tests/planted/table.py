"""Every fault that can be planted, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.planted import (
    delete_horizon,
    foreign_unseen,
    gone_as_lost,
    kept_decisions,
    merge_collision,
)
from tests.planted.fault import PlantedFault

FAULTS: Final[Mapping[str, PlantedFault]] = {
    "merge-collision": merge_collision.FAULT,
    "delete-horizon": delete_horizon.FAULT,
    "gone-as-lost": gone_as_lost.FAULT,
    "foreign-unseen": foreign_unseen.FAULT,
    "kept-decisions": kept_decisions.FAULT,
}
