"""Build hook of Hatch: the wheel knows its commit, and may hold compiled modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds to the wheel what only its build knows. An editable install finds it in the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Include the commit, and with HELIOGRAPH_COMPILE=1 the compiled modules."""
        if version == "editable" or self.target_name != "wheel":
            return
        self._include_commit(build_data)
        if os.environ.get("HELIOGRAPH_COMPILE") == "1":
            self._include_compiled(build_data)

    def _include_commit(self, build_data: dict[str, Any]) -> None:
        git = Path(self.root) / ".git"
        if not git.exists():
            return
        command = ["git", "-C", self.root, "describe", "--always", "--dirty", "--abbrev=12"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            path = Path(self.root) / "build" / "commit.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text(found.stdout)
            build_data["force_include"][str(path)] = "topology/commit.txt"

    def _include_compiled(self, build_data: dict[str, Any]) -> None:
        """Put a build of the compiled modules into the wheel, where the finder looks for it."""
        os.environ["HELIOGRAPH_PURE"] = "1"  # this process itself runs plain Python
        sys.path.insert(0, self.root)
        from local_cluster.compilation.builds import newest_fitting
        from local_cluster.compilation.compile import build

        place = Path(self.root) / "build" / "compiled"
        made = newest_fitting([place], Path(self.root)).directory
        if made is None:
            error = build(place, Path(self.root))
            if error:
                raise RuntimeError(error)
            made = newest_fitting([place], Path(self.root)).directory
        if made is None:
            raise RuntimeError("the sources changed while they were compiled")
        build_data["force_include"][str(made)] = f"local_cluster/compiled/{made.name}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
