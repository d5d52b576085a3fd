"""What the shell would complete on a command line."""

from __future__ import annotations

import shlex

from typer.testing import CliRunner

from topology.main import app


def completed(*words: str) -> list[str]:
    """Return the completions of the last word, behind the others, as bash gets them."""
    line = ["heliograph", *words]
    asked = {
        "_HELIOGRAPH_COMPLETE": "complete_bash",
        "COMP_WORDS": shlex.join(line[:-1]) + f" {line[-1]}",
        "COMP_CWORD": str(len(words)),
    }
    done = CliRunner().invoke(app, [], prog_name="heliograph", env=asked)
    assert done.stderr == "", "it would end up in the prompt"
    return done.stdout.split()
