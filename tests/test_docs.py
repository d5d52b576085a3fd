"""What documents name exists: links, anchors, paths, tests, make targets, commands, options."""

from __future__ import annotations

import ast
import re
import shlex
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from topology.main import app

ROOT = Path(__file__).parent.parent
PACKAGES = ("local_cluster", "mirror_maker", "aggregator", "spark_global", "topology")
README_LINES_MAX = 150
FILES_OF_USERS = ("shop.yaml", "topology.yaml")
NOT_OURS = (".venv", ".git", "build", "dist", "node_modules", "heliograph-demo")

LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)|!\[[^\]]*\]\((?P<image>[^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^(?:```|~~~)")
NAMED_TEST = re.compile(r"(?P<file>tests/[\w/]+\.py)(?:::(?P<test>[\w:\[\]-]+))?")
PATH = re.compile(r"(?<![\w/.<-])(?:[\w-]+/)*[\w-]+\.(?:py|md|yaml|toml)(?![\w/])")
get_command = cache(typer.main.get_command)
"""To build the tree of commands takes tenths of a second."""

MAKE = re.compile(r"(?<![\w-])make ([a-z][a-z-]+)")


def documents() -> list[Path]:
    return [
        path
        for path in sorted(ROOT.rglob("*.md"))
        if not any(part.startswith(NOT_OURS) for part in path.relative_to(ROOT).parts)
    ]


def each_document() -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "path", documents(), ids=lambda path: str(path.relative_to(ROOT))
    )


def prose(text: str) -> Iterator[str]:
    """The lines outside of code fences."""
    fenced = False
    for line in text.splitlines():
        if FENCE.match(line.strip()):
            fenced = not fenced
        elif not fenced:
            yield line


def slug(heading: str) -> str:
    """The anchor of a heading, as code hosts and the documentation's site make it."""
    words = re.sub(r"[^\w\s-]", "", heading.replace("`", "").strip().lower())
    return re.sub(r"\s", "-", words)


@cache
def anchors(path: Path) -> frozenset[str]:
    return frozenset(
        slug(line.lstrip("#")) for line in prose(path.read_text()) if line.startswith("#")
    )


@each_document()
def test_links_lead_somewhere(path: Path) -> None:
    wrong = []
    for line in prose(path.read_text()):
        for found in LINK.finditer(line):
            target = found["target"] or found["image"]
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            there = (path.parent / file).resolve() if file else path
            if not there.exists() or (anchor and anchor not in anchors(there)):
                wrong.append(target)
    assert not wrong


@each_document()
def test_named_tests_exist(path: Path) -> None:
    wrong = []
    for found in NAMED_TEST.finditer(path.read_text()):
        file = ROOT / found["file"]
        name = (found["test"] or "").split("::")[-1].split("[")[0]
        if not file.is_file() or (
            name and not re.search(rf"(?:def|class) {name}\b", file.read_text())
        ):
            wrong.append(found[0])
    assert not wrong


@each_document()
def test_named_files_exist(path: Path) -> None:
    wrong = [
        name
        for code in CODE.findall("\n".join(prose(path.read_text())))
        if re.fullmatch(PATH, code)
        for name in [code]
        if not named_file_exists(name, path.parent)
    ]
    assert not wrong


def named_file_exists(name: str, directory: Path) -> bool:
    """Whether a name is a file of ours: from the root, from here, from a parent of here.

    A name without a folder may also be that of a file in the same package.
    """
    if name in FILES_OF_USERS:
        return True
    places = [directory, *directory.parents]
    if any((place / name).exists() for place in places[: places.index(ROOT) + 1]):
        return True
    return "/" not in name and name in file_names(directory.relative_to(ROOT).parts[:1])


@cache
def file_names(package: tuple[str, ...]) -> frozenset[str]:
    """The names of all files in a package."""
    return frozenset(path.name for path in ROOT.joinpath(*package).rglob("*.*"))


@each_document()
def test_make_targets_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for code in commands_and_code(path) for name in MAKE.findall(code)}
    assert not named - targets


def commands_and_code(path: Path) -> Iterator[str]:
    """Inline code, fenced and indented blocks of a document."""
    text = path.read_text()
    yield from CODE.findall(text)
    fenced = False
    for line in text.splitlines():
        if FENCE.match(line.strip()):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield line


@each_document()
def test_commands_and_options_exist(path: Path) -> None:
    wrong = [
        problem
        for code in commands_and_code(path)
        for call in re.findall(r"(?:^|/|\s|\()(heliograph (?![-\w]*:)[a-z-][^#|>&]*)", code)
        if (problem := unknown_part(call))
    ]
    assert not wrong


def unknown_part(call: str) -> str | None:
    """What of `heliograph ...` the command does not know."""
    try:
        words = shlex.split(call.replace("...", "").replace("[", " ").replace("]", " "))[1:]
    except ValueError:
        return None
    command = get_command(app)
    for word in words:
        if isinstance(command, TyperGroup) and not word.startswith("-"):
            names = word.split("|")
            unknown = [name for name in names if name not in command.commands]
            if unknown and re.fullmatch(r"[a-z-]+", unknown[0]):
                return call
            command = command.commands.get(names[0], command)
        elif word.startswith("--"):
            option = word.partition("=")[0].rstrip(".,;:)")
            known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
            if option not in known | {"--help"}:
                return call
    return None


@pytest.mark.parametrize(
    "path",
    [path for path in documents() if path.name == "README.md"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_readmes_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= README_LINES_MAX


def test_docstrings_and_comments_name_files_that_exist() -> None:
    wrong = []
    for package in (*PACKAGES, "tests"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path == Path(__file__):
                continue
            for text in docstrings_and_comments(path):
                for name in re.findall(r"`((?:[\w-]+/)*\w+\.py)(?:::\w+)?`", text):
                    if not named_file_exists(name, path.parent):
                        wrong.append(f"{path.relative_to(ROOT)}: {name}")
    assert not wrong, "\n".join(wrong)


def docstrings_and_comments(path: Path) -> Iterator[str]:
    if not re.search(r"\.py(?:::\w+)?`", source := path.read_text()):
        return
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)
