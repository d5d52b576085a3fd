"""Queries from standard input: where each ends, and when the input ends."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_global.prompt import Statement, read_questions

PROGRAM = """
import sys
from spark_global.prompt import read_questions
for question in read_questions(float(sys.argv[1])):
    print("asked", repr(question), flush=True)
print("ended", flush=True)
"""
WAIT_SECONDS_MAX = 60.0


def test_a_semicolon_at_the_end_of_a_line_ends_a_question() -> None:
    statement = Statement()
    assert statement.add("SELECT ';'") is None
    assert statement.is_empty is False
    assert statement.add("  FROM t;  ") == "SELECT ';'\n  FROM t"
    assert Statement().is_empty
    assert statement.add(";") is None
    assert statement.add("") is None
    assert statement.end() is None
    assert statement.add("SELECT 1") is None
    assert statement.end() == "SELECT 1"


def test_the_last_question_needs_no_semicolon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 1;\n;\nSELECT\n2\n"))
    assert list(read_questions()) == ["SELECT 1", "SELECT\n2"]


def test_an_idle_pipe_ends_the_input() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "0.2"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read() == "ended\n"
        assert "no question for 0 s" in process.stderr.read()


def test_ctrl_c_drops_a_line_and_ctrl_d_ends_a_terminal() -> None:
    """Each step waits for what the program shows, so that nothing is typed before it listens."""
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM, "60"])
    shown = ""

    def wait_for(text: str, count: int = 1) -> None:
        nonlocal shown
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while shown.count(text) < count:
            assert time.monotonic() < deadline, shown
            shown += os.read(terminal, 1024).decode()
        # `input` misses a Ctrl-C between its prompt and its wait.
        while Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            assert time.monotonic() < deadline, shown

    wait_for("heliograph> ")
    os.write(terminal, b"SELECT wrong\r")
    wait_for("-> ")
    os.write(terminal, b"\x03")
    wait_for("heliograph> ", 2)
    os.write(terminal, b"SELECT 1;\r")
    wait_for("asked 'SELECT 1'")
    wait_for("heliograph> ", 3)
    os.write(terminal, b"\x04")
    while "ended" not in shown:
        shown += os.read(terminal, 1024).decode()
    os.waitpid(process, 0)
    os.close(terminal)
