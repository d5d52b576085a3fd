"""Python loads this at its start where the directory is in PYTHONPATH: plants the named fault."""

from __future__ import annotations

import os

if os.environ.get("HELIOGRAPH_PLANTED_FAULT"):
    from tests.planted.planting import plant

    plant(os.environ["HELIOGRAPH_PLANTED_FAULT"])
