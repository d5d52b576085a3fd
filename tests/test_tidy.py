"""Style as a test: sizes, names, imports, docstrings, folders and their maps.

An exception stands in a table below with its reason. A table that lists what no longer needs to
be an exception fails as well, so that the tables only shrink.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PACKAGES: Final = ("local_cluster", "mirror_maker", "aggregator", "spark_global", "topology")

FILE_LINES_MAX: Final = 400
FUNCTION_LINES_MAX: Final = 70
FOLDER_MODULES_MAX: Final = 16
SENTENCE_WORDS_MAX: Final = 25
FIRST_LINE_WORDS_MAX: Final = 20

LONG_FILES: Final = {
    "local_cluster/replication/partition.py": "each operation of `Partition` reads or advances the "
    "high watermark; the ISR, the purgatory and the flushes are modules of their own",
}
LONG_FUNCTIONS: Final = {
    "local_cluster/server/broker.py::__init__": "the composition root: it makes each part of a "
    "broker in the order of their dependencies, without a branch",
    "topology/rebalance/command.py::rebalance": "Typer reads the options from the signature, which "
    "is more than half of it",
}
FULL_FOLDERS: Final[dict[str, str]] = {}
SIMILAR_NAMES: Final[dict[tuple[str, str], str]] = {}
LONG_SENTENCES: Final = {
    "mirror_maker/tail/alignment.py::module": "when two records count as one is a definition, and "
    "names all that it compares",
}
GENERATED: Final = {
    "local_cluster/wire/responses": "mirrors the structs of Kafka's schemas, which have no text; "
    "only the response itself says its API and versions",
}
"""Folders whose classes need no docstring."""


@cache
def modules() -> tuple[Path, ...]:
    return tuple(path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py")))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def folders() -> dict[Path, list[Path]]:
    found: dict[Path, list[Path]] = {}
    for path in modules():
        found.setdefault(path.parent, []).append(path)
    return found


def test_files_are_short() -> None:
    long = {name(path) for path in modules() if len(lines(path)) > FILE_LINES_MAX}
    assert long == set(LONG_FILES)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_functions_are_short() -> None:
    long = {
        f"{name(path)}::{node.name}"
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    }
    assert long == set(LONG_FUNCTIONS)


def test_folders_hold_what_one_can_survey() -> None:
    full = {
        name(folder)
        for folder, files in folders().items()
        if len([path for path in files if path.name != "__init__.py"]) > FOLDER_MODULES_MAX
    }
    assert full == set(FULL_FOLDERS)


def test_every_folder_says_what_is_in_it() -> None:
    silent = [
        name(folder)
        for folder in folders()
        if not ast.get_docstring(tree(folder / "__init__.py"))
        or len((ast.get_docstring(tree(folder / "__init__.py")) or "").split()) < 4
    ]
    assert not silent


def test_every_module_is_in_the_map_of_its_folder() -> None:
    """A folder's map is its docstring, its README, or the README of a folder above."""
    missing = []
    for folder, files in folders().items():
        text = ast.get_docstring(tree(folder / "__init__.py")) or ""
        for place in (folder, *folder.parents):
            if place == ROOT:
                break
            if (place / "README.md").exists():
                text += (place / "README.md").read_text()
        words = set(re.findall(r"\w+", text))
        missing += [
            name(path)
            for path in files
            if path.stem not in words and not path.stem.startswith("__")
        ]
    assert not missing, "\n".join(missing)


def test_names_in_a_folder_differ_by_more_than_a_suffix() -> None:
    similar = set()
    for folder, files in folders().items():
        stems = sorted(path.stem for path in files)
        for one in stems:
            for other in stems:
                if one != other and stem(one) == stem(other):
                    similar.add((name(folder), min(one, other)))
    assert similar == set(SIMILAR_NAMES)


def stem(word: str) -> str:
    """`trouble`, `troubles`, `troubling` have one stem."""
    return re.sub(r"(?:ings?|ers?|ed|es|s|e)$", "", word)


def test_imports_are_absolute() -> None:
    relative = [
        f"{name(path)}:{node.lineno}"
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative


def test_a_logger_is_called_log() -> None:
    wrong = [
        f"{name(path)}: {target.id}"
        for path in modules()
        for node in tree(path).body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("logging.getLogger(")
        for target in node.targets
        if isinstance(target, ast.Name) and target.id != "log"
    ]
    assert not wrong


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """(name, docstring) of a module, its public classes and functions."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "name", "module"), text


def test_every_module_and_public_class_has_a_docstring() -> None:
    silent = []
    for path in modules():
        if not ast.get_docstring(tree(path)):
            silent.append(name(path))
        silent += [
            f"{name(path)}::{node.name}"
            for node in tree(path).body
            if isinstance(node, ast.ClassDef)
            and not node.name.startswith("_")
            and name(path.parent) not in GENERATED
            and not ast.get_docstring(node)
        ]
    assert not silent, "\n".join(silent)


def prose(text: str) -> str:
    """Return a docstring with an empty line for each row of a table, diagram or code block.

    A row has columns (two or more spaces within the line) or is indented by four or more.
    """
    rows = re.compile(r"^(?: {4}|.*\S {2,}\S|\s*(?:\||>>>))")
    return "\n".join("" if rows.match(line) else line for line in text.splitlines())


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a docstring, without tables, diagrams and code blocks."""
    for paragraph in re.split(r"\n\s*\n|\n\s*[-*] ", prose(text)):
        yield from re.split(r"(?<=[.!?:;])\s+", " ".join(paragraph.split()))


def test_tables_are_not_sentences() -> None:
    text = "One.\n\nkey    what it does,\n       for long\n\n    a --> b\n\n- Two\n  lines. Three."
    assert [each for each in sentences(text) if each] == ["One.", "- Two lines.", "Three."]


def test_sentences_are_short() -> None:
    long = [
        (f"{name(path)}::{what}", sentence)
        for path in modules()
        for what, text in docstrings(path)
        for sentence in sentences(text)
        if len(sentence.split()) > SENTENCE_WORDS_MAX
    ]
    assert {at for at, _ in long} == set(LONG_SENTENCES), "\n".join(map(": ".join, long))


PRIVATE_WORDS: Final = {
    "made anew": "re-created",
    "begin anew": "start over",
    "begins anew": "starts over",
    "whatever befalls": "even if",
    "goes on with": "continues",
    "stands still": "is stopped",
}


def test_words_that_only_the_authors_know_are_gone() -> None:
    found = [
        f"{name(path)}: {word} ({better})"
        for path in modules()
        for word, better in PRIVATE_WORDS.items()
        if word in path.read_text()
    ]
    assert not found, "\n".join(found)


def test_no_merge_is_left_half_done() -> None:
    marker = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
    texts = [path for path in ROOT.rglob("*.md") if ".venv" not in path.parts]
    assert [name(path) for path in texts if marker.search(path.read_text())] == []
