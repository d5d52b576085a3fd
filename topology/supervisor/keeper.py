"""The parent of the supervisor: starts it, and starts it again whenever it is lost.

    keeper --forks--> supervisor --starts--> daemons

Guarantees: at most one supervisor for a state directory: both hold its lock, so that nobody comes
between a supervisor that was killed and the next; daemons are not touched when either is lost. If
the keeper is killed, the supervisor goes on without.
Not here: what a supervisor does (supervisor.py), which is imported by the child alone.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from topology.deployment.state_dir import StateDir

RESTART_DELAY_S: Final = 1.0
"""Before a lost supervisor is followed by the next."""
EXIT_STOPPED: Final = 0
EXIT_NOTHING_TO_KEEP: Final = 2
"""Of a supervisor that cannot read what it should keep: another one could not either."""

_FORWARDED: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_AWAITED: Final = _FORWARDED | {signal.SIGCHLD}

log = logging.getLogger("heliograph.keeper")


def keep(work: Callable[[], int]) -> int:
    """Do the work in a child process, until an exit code says that there is no more; that code.

    SIGTERM and SIGINT are forwarded; the child begins with both blocked, so that none is lost
    before it is ready for them (`accept_signals`).
    """
    # What nobody handles and is ignored by default need not wait to be asked for.
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    while True:
        child = os.fork()
        if child == 0:
            _work_and_exit(work)
        code = _wait(child)
        if code in (EXIT_STOPPED, EXIT_NOTHING_TO_KEEP):
            return code
        lost = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        log.error("the supervisor was lost (%s); starting the next", lost)
        time.sleep(RESTART_DELAY_S)


def accept_signals() -> None:
    """In the child, when it handles them: take what is forwarded, and what was before."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)


def _work_and_exit(work: Callable[[], int]) -> NoReturn:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        code = work()
    except Exception:
        log.exception("the supervisor ended; its daemons go on")
    finally:
        os._exit(code)  # what the parent has opened is the parent's to close


def _wait(child: int) -> int:
    """The child's exit code, negative for a signal."""
    while True:
        number = signal.sigwait(_AWAITED)
        if number in _FORWARDED:
            os.kill(child, number)
            continue
        pid, status = os.waitpid(child, os.WNOHANG)  # perhaps it was only paused
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m topology.supervisor.keeper")
    parser.add_argument("--state-dir", type=Path, required=True)
    state = StateDir(parser.parse_args().state_dir)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")

    def supervise() -> int:
        from topology.supervisor.supervisor import run_supervisor

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
