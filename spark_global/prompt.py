"""Reads questions from standard input, so that one warm session answers many. Shell.

On a terminal there is a prompt, with history and editing. A question ends with a semicolon at the
end of a line; the last one needs none. The input also ends when nothing comes for `idle_seconds`,
because a session that waits holds gigabytes.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Final, NoReturn

IDLE_SECONDS: Final = 3_600.0
"""Default of the seconds without input after which the input ends."""
PROMPT: Final = "heliograph> "
CONTINUED: Final = "         -> "
END: Final = ";"


class _IdleError(Exception):
    """Nothing came for too long."""


class Statement:
    """Lines of a question that is not whole yet."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    @property
    def is_empty(self) -> bool:
        return not self._lines

    def add(self, line: str) -> str | None:
        """Add a line; return the question if it is whole now and not empty."""
        text = line.rstrip()
        self._lines.append(text.removesuffix(END))
        return self.end() if text.endswith(END) else None

    def end(self) -> str | None:
        """Return the question as it is, or None if there is nothing of it, and begin a new one."""
        text = "\n".join(self._lines).strip()
        self._lines = []
        return text or None


def is_typed() -> bool:
    """Return whether a person types the questions."""
    return sys.stdin.isatty()


def read_questions(idle_seconds: float = IDLE_SECONDS) -> Iterator[str]:
    """Yield each question of standard input.

    On a terminal Ctrl-C drops what was typed of a question, and Ctrl-D ends the input.
    """
    if is_typed():
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - gives `input` history and editing
    statement = Statement()
    while True:
        try:
            line = _next_line(statement, idle_seconds)
        except KeyboardInterrupt:
            if not is_typed():
                raise
            statement = Statement()
            sys.stderr.write("\n")
            continue
        except _IdleError:
            sys.stderr.write(f"no question for {idle_seconds:.0f} s\n")
            return
        question = statement.end() if line is None else statement.add(line)
        if question is not None:
            yield question
        if line is None:
            return


def _next_line(statement: Statement, idle_seconds: float) -> str | None:
    """Return the next line, or None at the end of the input."""
    with _limited(idle_seconds):
        if not is_typed():
            return sys.stdin.readline() or None
        try:
            return input(PROMPT if statement.is_empty else CONTINUED)
        except EOFError:
            sys.stderr.write("\n")
            return None


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise _IdleError after some seconds. For the main thread, which receives signals."""

    def give_up(_: int, __: FrameType | None) -> NoReturn:
        raise _IdleError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
