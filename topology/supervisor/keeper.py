"""The parent of the supervisor: forks it, and forks the next one when it is lost.

Guarantees: a state directory has at most one supervisor. Keeper and supervisor both hold its lock,
so no other supervisor can start between a supervisor that was killed and the next one. The loss of
either does not touch the daemons. If the keeper is killed, the supervisor continues without it.
Not here: the lock and the command line (`topology/keeper.py`).
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from typing import Final, NoReturn

RESTART_DELAY_S: Final = 1.0
"""Seconds between the loss of a supervisor and the start of the next one."""
EXIT_STOPPED: Final = 0
EXIT_NOTHING_TO_KEEP: Final = 2
"""Exit code of a supervisor that cannot read its deployment; the next one could not either."""

_FORWARDED: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_AWAITED: Final = _FORWARDED | {signal.SIGCHLD}

log = logging.getLogger(__name__)


def keep(work: Callable[[], int]) -> int:
    """Run the work in a child process until its exit code says that none is left; return the code.

    SIGTERM and SIGINT are forwarded to the child. It starts with both blocked, so that none is lost
    before it can handle them (`accept_signals`).
    """
    # SIGCHLD is ignored by default, and an ignored signal need not stay pending for sigwait. A
    # handler that does nothing keeps it pending.
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
    """Unblock the forwarded signals in the child, which can handle them; pending ones arrive."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)


def _work_and_exit(work: Callable[[], int]) -> NoReturn:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        code = work()
    except Exception:
        log.exception("the supervisor failed; its daemons continue")
    finally:
        os._exit(code)  # the parent closes what it has opened


def _wait(child: int) -> int:
    """Wait for the child; return its exit code, negative for a signal."""
    while True:
        number = signal.sigwait(_AWAITED)
        if number in _FORWARDED:
            os.kill(child, number)
            continue
        pid, status = os.waitpid(child, os.WNOHANG)  # SIGCHLD also comes when it is paused
        if pid == child:
            return os.waitstatus_to_exitcode(status)
