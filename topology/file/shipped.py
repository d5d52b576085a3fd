"""Where the example topologies that come with the distribution lie."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parents[1]


def shipped_topology(name: str) -> Path:
    """The file of an example, such as `quickstart`: in the wheel beside this module, in a
    checkout in `configs/`."""
    inside = _HERE / "configs" / f"{name}.yaml"
    return inside if inside.exists() else _HERE.parent / "configs" / f"{name}.yaml"
