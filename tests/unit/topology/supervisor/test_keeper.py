"""The name by which a keeper of any version imports the supervisor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from topology.supervisor.keeper import EXIT_NOTHING_TO_KEEP

CHILD_OF_AN_OLD_KEEPER = """
import sys
from pathlib import Path

def work(path):
    # The keeper holds its own StateDir, whose class is that of its version.
    from topology.deployment.state_dir import StateDir
    state = StateDir(Path(path))
    loaded = set(sys.modules)
    from topology.supervisor import run_supervisor
    assert not {"asyncio", "pydantic"} & (set(sys.modules) - loaded), "the import loads nothing"
    return run_supervisor(state)

sys.exit(work(sys.argv[1]))
"""


def test_a_keeper_finds_the_supervisor_by_the_documented_name(tmp_path: Path) -> None:
    """A keeper forks the supervisor after the package may have been replaced under it."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD_OF_AN_OLD_KEEPER, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[4],
        check=False,
    )
    assert done.returncode == EXIT_NOTHING_TO_KEEP, done.stderr
