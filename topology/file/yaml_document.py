"""A YAML text as plain values, with the position of every key and value.

Guarantees: a file creates only mappings, lists and scalars. Size and depth are bounded before any
code walks the result. A duplicate key is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from topology.problems import Location, Problem

DOCUMENT_BYTES_MAX = 1 << 20
NODES_MAX = 100_000
DEPTH_MAX = 30
BRACKETS_MAX = 300
"""Brackets that are open at one place. The parser takes quadratic time for them, so they are
counted before it, also those in texts and comments."""
_BRACKETS = re.compile(r"[\[\]{}]")


class NotYaml(Exception):
    """The text is no YAML document, or exceeds a limit."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.expected)
        self.problem = problem


class YamlDocument:
    """A parsed text: `value` holds plain values, `position` returns places in the text."""

    def __init__(self, text: str) -> None:
        """Parse the text. Raises NotYaml."""
        if len(text.encode()) > DOCUMENT_BYTES_MAX:
            raise NotYaml(Problem(1, 1, "topology", f"at most {DOCUMENT_BYTES_MAX} bytes"))
        if _has_too_many_open(text):
            raise _too_large()
        try:
            self._root: Any = YAML().load(text)
        except MarkedYAMLError as error:
            raise NotYaml(_yaml_problem(error)) from error
        except (YAMLError, ValueError) as error:
            expected = f"a YAML document; {str(error).splitlines()[0]}"
            raise NotYaml(Problem(1, 1, "topology", expected)) from error
        except RecursionError:
            raise _too_large() from None
        self._nodes_left = NODES_MAX
        self.value: Any = self._plain(self._root, 0)

    def _plain(self, node: Any, depth: int) -> Any:
        self._nodes_left -= 1
        if depth > DEPTH_MAX or self._nodes_left < 0:
            raise _too_large()
        if isinstance(node, Mapping):
            return {key: self._plain(value, depth + 1) for key, value in node.items()}
        if isinstance(node, list):
            return [self._plain(value, depth + 1) for value in node]
        for scalar in (bool, int, float, str):  # ruamel's scalars are subclasses of these
            if isinstance(node, scalar):
                return scalar(node)
        return node

    def position(self, location: Location, *, at_key: bool) -> tuple[int, int]:
        """Return line and column, from 1, of the value at a location, or of its key.

        If the file has no such entry, the position is that of the nearest entry around it.
        """
        line, column = 1, 1
        node = self._root
        if isinstance(node, CommentedMap | CommentedSeq) and node.lc.line is not None:
            line, column = node.lc.line + 1, node.lc.col + 1
        for depth, item in enumerate(location):
            last = depth == len(location) - 1
            found = _entry_position(node, item, at_key=at_key or not last)
            if found is None:
                break
            line, column = found[0] + 1, found[1] + 1
            node = node[item]
        return line, column


def _entry_position(node: Any, item: str | int, *, at_key: bool) -> tuple[int, int] | None:
    try:
        if isinstance(node, CommentedMap) and item in node:
            return tuple(node.lc.key(item) if at_key else node.lc.value(item))
        if isinstance(node, CommentedSeq) and isinstance(item, int) and item < len(node):
            return tuple(node.lc.item(item))
    except (KeyError, TypeError):  # an entry of a merge key has no position here
        return None
    return None


def _has_too_many_open(text: str) -> bool:
    depth = 0
    for bracket in _BRACKETS.finditer(text):
        depth = depth + 1 if bracket[0] in "[{" else max(0, depth - 1)
        if depth > BRACKETS_MAX:
            return True
    return False


def _too_large() -> NotYaml:
    limits = f"at most {NODES_MAX} values, nested at most {DEPTH_MAX} deep"
    return NotYaml(Problem(1, 1, "topology", limits))


def _yaml_problem(error: MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    what = " ".join(str(error.problem or "a YAML document").split())
    if isinstance(error, DuplicateKeyError):
        return Problem(line, column, "topology", f"each key once; {what.split(' with value')[0]}")
    return Problem(line, column, "topology", f"valid YAML; {what}")
