"""Log lines for people, and as JSON objects."""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from local_cluster.compilation.builds import PURE_VARIABLE
from local_cluster.process_log import FORMAT_VARIABLE, add_log_options, configure_log

PROGRAM = """
import logging, subprocess, sys
from local_cluster.process_log import configure_log
configure_log("INFO", *sys.argv[1:])
logging.getLogger("a.b").debug("too quiet")
logging.getLogger("a.b").warning("disk %s is full\\nnow", "d1")
try:
    raise OSError("no space")
except OSError:
    logging.getLogger("c").exception("failed")
if len(sys.argv) > 1:
    subprocess.run([sys.executable, "-c", sys.stdin.read()])
"""


def logged(*arguments: str) -> list[str]:
    """Return the lines of a process and, with arguments, of one that it starts without them."""
    environment = {name: value for name, value in os.environ.items() if name != FORMAT_VARIABLE}
    environment[PURE_VARIABLE] = "1"  # nothing is said of the build
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        input=PROGRAM,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stdout
    return done.stderr.splitlines()


def test_json_lines_and_those_of_a_process_that_it_starts() -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    entries: list[dict[str, Any]] = [json.loads(line) for line in logged("json")]
    assert [(each["level"], each["logger"], each["message"]) for each in entries] == [
        ("WARNING", "a.b", "disk d1 is full\nnow"),
        ("ERROR", "c", "failed"),
    ] * 2
    assert set(entries[0]) == {"level", "logger", "message", "pid", "timestamp"}
    assert entries[1]["exception"].endswith("OSError: no space")
    assert len({each["pid"] for each in entries}) == 2
    assert all(before <= datetime.fromisoformat(each["timestamp"]) for each in entries)


def test_lines_for_people() -> None:
    lines = logged()
    assert lines[0].endswith(" WARNING a.b: disk d1 is full")
    assert lines[-1] == "OSError: no space"


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="log format 'xml'; known: text, json"):
        configure_log("INFO", "xml")
    parser = argparse.ArgumentParser()
    add_log_options(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--log-format", "xml"])
    assert parser.parse_args(["--log-level", "debug"]).log_level == "DEBUG"
    assert logging.getLogger().level != logging.DEBUG
