"""Build hook of Hatch: the wheel knows the commit that it was built from."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds `topology/commit.txt` to the wheel. An editable install asks git instead."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the commit to a file of the build directory, and include it."""
        git = Path(self.root) / ".git"
        if version == "editable" or not git.exists():
            return
        command = ["git", "-C", self.root, "describe", "--always", "--dirty", "--abbrev=12"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            path = Path(self.root) / "build" / "commit.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text(found.stdout)
            build_data["force_include"][str(path)] = "topology/commit.txt"
