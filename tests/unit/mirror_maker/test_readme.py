"""The documents of the mirror name only tests and files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCUMENTS = (
    ROOT / "mirror_maker" / "README.md",
    ROOT / "docs" / "guarantees" / "mirror.md",
    ROOT / "docs" / "benchmarks" / "mirror.md",
    ROOT / "docs" / "design" / "formats.md",
    *sorted((ROOT / "docs" / "design").glob("mirror-*.md")),
    *(
        ROOT / "docs" / "operations" / f"{name}.md"
        for name in (
            "coming-from-mirrormaker2",
            "groups",
            "link-options",
            "mirror-audit",
            "mirror-metrics",
            "mirror-upgrades",
            "rights",
            "troubles",
        )
    ),
)
TEST = re.compile(r"`(?P<file>tests/[\w/]+\.(?:py|txt))?(?:::(?P<test>[\w:.]+))?`")
FILE = re.compile(r"`((?:mirror_maker|local_cluster|aggregator|topology|docs)/[\w/.-]+\.\w+)`")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([\w-]+))?\)")


def _missing_tests(text: str) -> tuple[int, list[str]]:
    """Return how many tests the text names, and those that do not exist."""
    missing = []
    count = 0
    for line in text.splitlines():
        file = ""
        for named in TEST.finditer(line):
            # "`::name`" continues the file before it.
            file = named["file"] or file
            if not named[0].strip("`") or not file:
                continue
            count += 1
            path = ROOT / file
            test = (named["test"] or "").replace("::", ".").rpartition(".")[2]
            exists = path.is_file() and (not test or re.search(rf"def {test}\b", path.read_text()))
            if not exists:
                missing.append(named[0])
    return count, missing


def _anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_test_and_path_that_the_documents_name_exists() -> None:
    count = 0
    missing = []
    for document in DOCUMENTS:
        found, absent = _missing_tests(document.read_text())
        count += found
        missing += absent
        missing += [
            name for name in FILE.findall(document.read_text()) if not (ROOT / name).exists()
        ]
    assert count > 150, "the tests are found"
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each.stem)
def test_links_lead_to_a_heading(document: Path) -> None:
    for path, anchor in LINK.findall(document.read_text()):
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), path
        if anchor and target.suffix == ".md":
            assert anchor in _anchors(target), f"{path}#{anchor}"
