"""The tests that the README names are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
README = ROOT / "mirror_maker" / "README.md"
NAMED = re.compile(
    r"`(?P<file>(?:tests/|unit/|real/|sim/|props/|compat/)[\w/]+\.py)?(?:::(?P<test>[\w:.]+))?`"
)


def test_every_test_and_path_that_the_documents_name_exists() -> None:
    missing = []
    count = 0
    for line in README.read_text().splitlines():
        file = ""
        for named in NAMED.finditer(line):
            # "`::name`" goes on with the file before it.
            file = named["file"] or file
            if not named[0].strip("`") or not file:
                continue
            count += 1
            path = ROOT / "tests" / file.removeprefix("tests/")
            test = (named["test"] or "").replace("::", ".").rpartition(".")[2]
            is_there = path.is_file() and re.search(rf"def {test}\b", path.read_text())
            if not is_there:
                missing.append(named[0])
    assert count > 100, "they are found"
    assert missing == []
