"""`heliograph demo`: the main job on real input; see `run.py`."""

from __future__ import annotations

from topology.demo.run import run_demo

__all__ = ["run_demo"]
