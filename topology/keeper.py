"""Entry point of a deployment's keeper: `python -m topology.keeper --state-dir DIR`.

The keeper holds the lock of the state directory, forks the supervisor and restarts it
(`supervisor/keeper.py`). It lives as long as the deployment, so it outlives upgrades of this
package: the next supervisor that it forks imports the new code. That import uses one name, which
must stay: `topology.supervisor.run_supervisor`.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from topology.deployment.state_dir import StateDir
from topology.supervisor.keeper import EXIT_STOPPED, keep

log = logging.getLogger(__name__)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m topology.keeper")
    parser.add_argument("--state-dir", type=Path, required=True)
    state = StateDir(parser.parse_args().state_dir)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")

    def supervise() -> int:
        # Only the child imports the supervisor, at each fork: see the module's docstring.
        from topology.supervisor import run_supervisor

        return run_supervisor(state)

    with state.locked() as held:
        if not held:
            log.info("another supervisor keeps %s", state.path)
            return EXIT_STOPPED
        try:
            return keep(supervise)
        finally:
            state.socket_path.unlink(missing_ok=True)


if __name__ == "__main__":
    raise SystemExit(main())
