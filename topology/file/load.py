"""From the text of a topology file to a Topology, or to every problem it has.

Guarantees: one call reports all problems of types, names and rules together; entries that are
wrong by themselves do not hide problems of the others.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import is_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from local_cluster.client.auth.security import ClientSecurity
from topology.file.yaml_document import NotYaml, YamlDocument
from topology.model import Cluster, Link, Topology, ZooKeeperProcess
from topology.model.cluster import LISTENER_PATTERN, LOG_DIR_PATTERN
from topology.model.scalars import HOST_PATTERN, NAME_PATTERN, TOPIC_PATTERN
from topology.model.security import SecretPlace, Security
from topology.model.zookeeper import CHROOT_PATTERN
from topology.problems import Finding, InvalidTopology, Location, Problem, key_text, nearest_name
from topology.rules.checks import Parts, check_rules

EntryT = TypeVar("EntryT", bound=BaseModel)

WHOLE_FILE = key_text(())
"""What a problem of no single key is a problem of."""
ENTRY_DEPTH = len(("clusters", 0))
REPAIRS_MAX = 3
"""Rounds of taking wrong values out of an entry before it is left out of the rules."""

_WORDS = {
    NAME_PATTERN: "a name of letters, digits, - and _, at most 63 of them",
    HOST_PATTERN: "a host name or address",
    CHROOT_PATTERN: "a path such as /ewr",
    TOPIC_PATTERN: "a topic name of letters, digits, ., _ and -, at most 249 of them",
    LOG_DIR_PATTERN: "an absolute path, a name of letters, digits, - and _, or .",
    LISTENER_PATTERN: "a name such as PLAINTEXT, of letters, digits, - and _",
}

_UNQUOTED = {
    Security.__name__: "a mapping",
    SecretPlace.__name__: "a mapping that says where the secret is, by `file` or `env`",
}
"""Of classes in whose place somebody may have written a secret: what is there is not repeated."""

_EXPECTED = {
    "missing": "this key is required",
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def load_topology(path: Path) -> Topology:
    """The topology of a file. Raises InvalidTopology with every problem, or OSError."""
    return parse_topology(_read_text(path), file=str(path))


def load_security(path: Path) -> ClientSecurity:
    """What a topology says of a cluster under `security`, from a file that says nothing else.

    Raises InvalidTopology with every problem, or OSError.
    """
    whole = "security"
    document = _yaml(_read_text(path, whole), str(path), whole)
    try:
        security = Security.model_validate(document.value)
    except ValidationError as error:
        findings = [_finding(document.value, details, Security) for details in error.errors()]
    else:
        try:
            return security.client(path.absolute().parent)
        except ValueError as error:
            findings = [Finding((), str(error))]
    raise InvalidTopology(str(path), [_problem(document, each, whole) for each in findings])


def _read_text(path: Path, whole: str = WHOLE_FILE) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        problem = Problem(line, 1, whole, "UTF-8 text")
        raise InvalidTopology(str(path), [problem]) from error


def _yaml(text: str, file: str, whole: str = WHOLE_FILE) -> YamlDocument:
    try:
        return YamlDocument(text)
    except NotYaml as error:
        raise InvalidTopology(file, [replace(error.problem, key=whole)]) from error


def shipped_topology(name: str) -> Path:
    """Return the file of an example topology, such as `quickstart`.

    It is in `topology/configs/` of the installed package, or in `configs/` of a checkout.
    """
    package = Path(__file__).resolve().parents[1]
    installed = package / "configs" / f"{name}.yaml"
    return installed if installed.exists() else package.parent / "configs" / f"{name}.yaml"


def parse_topology(text: str, *, file: str = "topology") -> Topology:
    """The topology of a text. Raises InvalidTopology with every problem."""
    document = _yaml(text, file)
    if not isinstance(document.value, dict):
        expected = "a mapping with name and clusters"
        raise InvalidTopology(file, [Problem(1, 1, "topology", expected)])

    topology: Topology | None = None
    findings: list[Finding] = []
    try:
        topology = Topology.model_validate(document.value)
    except ValidationError as error:
        findings += [_finding(document.value, details) for details in error.errors()]
    wrong = {finding.location for finding in findings}
    findings += (
        finding
        for finding in check_rules(_valid_parts(document.value))
        if not any(_hides(location, finding.location) for location in wrong)
    )
    if topology is None or findings:
        raise InvalidTopology(file, [_problem(document, finding) for finding in findings])
    return topology


def _hides(wrong: Location, other: Location) -> bool:
    """Whether what a rule finds may only follow from a value that is wrong by itself: one around
    it, or one within it that the rule did not get to see."""
    is_within = len(other) > ENTRY_DEPTH and wrong[: len(other)] == other
    return is_within or other[: len(wrong)] == wrong


def _problem(document: YamlDocument, finding: Finding, whole: str = "") -> Problem:
    line, column = document.position(finding.location, at_key=finding.at_key)
    location = (whole, *finding.location) if whole else finding.location
    return Problem(line, column, key_text(location), finding.expected, finding.nearest)


def _valid_parts(value: dict[str, Any]) -> Parts:
    """The entries that are right by themselves, so that rules between them can be checked."""
    return Parts(
        zookeepers=_valid_entries(value.get("zookeepers"), ZooKeeperProcess),
        clusters=_valid_entries(value.get("clusters"), Cluster),
        links=_valid_entries(value.get("links"), Link),
        zookeeper_names=_names(value.get("zookeepers")),
        cluster_names=_names(value.get("clusters")),
    )


def _valid_entries(values: Any, entry: type[EntryT]) -> dict[int, EntryT]:
    """Entries that are right, if need be without the keys that are wrong by themselves."""
    valid: dict[int, EntryT] = {}
    for index, value in enumerate(values if isinstance(values, list) else []):
        remaining = deepcopy(value)
        for _ in range(REPAIRS_MAX):
            try:
                valid[index] = entry.model_validate(remaining)
                break
            except ValidationError as error:
                if not all(_cut(remaining, details) for details in reversed(error.errors())):
                    break
    return valid


def _cut(root: Any, details: ErrorDetails) -> bool:
    """Take a wrong value out, or the mapping in which something is missing; False where that
    would move the entries after it, or leave nothing."""
    location = _in_file(root, details["loc"], missing=False)
    if not location:
        return False
    parent: Any = root
    for item in location[:-1]:
        parent = _entry(parent, item)
    last = location[-1]
    if isinstance(parent, list) and isinstance(last, int):
        if any(isinstance(each, dict) for each in parent):
            return False
        del parent[last : last + 1]
    elif isinstance(parent, dict):
        parent.pop(last, None)  # it may have gone with an entry around it
    return True


def _entry(value: Any, item: str | int) -> Any:
    """The entry of a mapping or a list, None where there is none."""
    if isinstance(value, dict):
        return value.get(item)
    if isinstance(value, list) and isinstance(item, int) and item < len(value):
        return value[item]
    return None


def _names(values: Any) -> set[str]:
    if not isinstance(values, list):
        return set()
    names = (value.get("name") for value in values if isinstance(value, dict))
    return {name for name in names if isinstance(name, str)}


def _finding(root: Any, details: ErrorDetails, model: type[BaseModel] = Topology) -> Finding:
    """Where pydantic's error lies in the file, and what should have been there."""
    kind = details["type"]
    location = _in_file(root, details["loc"], missing=kind == "missing")
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        known = known_keys(location[:-1], model)
        expected = f"unknown key; expected one of {', '.join(known)}"
        return Finding(location, expected, nearest_name(location[-1], known), at_key=True)
    context = details.get("ctx", {})
    if kind == "literal_error":
        options = [text.strip("'") for text in str(context["expected"]).split(" or ")]
        options = [part.strip("' ") for text in options for part in text.split(",")]
        return Finding(
            location, f"one of {', '.join(options)}", nearest_name(details["input"], options)
        )
    if kind == "missing":
        return Finding(location, _EXPECTED[kind], at_key=True)
    return Finding(location, _expected_text(details))


def _expected_text(details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    unquoted = _UNQUOTED.get(context.get("class_name", ""))
    if unquoted is not None:
        return unquoted
    got = f", not {details['input']!r}" if isinstance(details["input"], str | int | float) else ""
    if kind in _EXPECTED:
        return _EXPECTED[kind] + got
    match kind:
        case "value_error":
            return f"{context['error']}{got}"
        case "greater_than_equal":
            return f"at least {context['ge']}{got}"
        case "less_than_equal":
            return f"at most {context['le']}{got}"
        case "too_short" | "string_too_short":
            return "at least one entry" if kind == "too_short" else "text that is not empty"
        case "string_pattern_mismatch":
            return _WORDS[context["pattern"]] + got
    return details["msg"][:1].lower() + details["msg"][1:] + got


def _in_file(root: Any, path: Location, *, missing: bool) -> Location:
    """The path without the marks pydantic puts in for unions and mapping keys."""
    value = root
    location: list[int | str] = []
    for depth, item in enumerate(path):
        inside = item in value if isinstance(value, dict) else _entry(value, item) is not None
        if inside:
            location.append(item)
            value = _entry(value, item)
        elif missing and depth == len(path) - 1:
            location.append(item)
    return tuple(location)


def known_keys(location: Location, model: type[BaseModel] = Topology) -> list[str]:
    """The keys the model knows at a location."""
    annotations: list[Any] = [model]
    for item in location:
        annotations = [inner for each in annotations for inner in _inner(each, item)]
    found = {key for each in annotations for model in _flat(each) for key in _fields(model)}
    return sorted(found)


def _flat(annotation: Any) -> list[Any]:
    """The alternatives of a union, without annotations."""
    if get_origin(annotation) is Annotated:
        return _flat(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [each for part in get_args(annotation) for each in _flat(part)]
    return [annotation]


def _fields(annotation: Any) -> dict[str, Any]:
    """The fields of a model or dataclass, with their annotations."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {name: each.annotation for name, each in annotation.model_fields.items()}
    if isinstance(annotation, type) and is_dataclass(annotation):
        return get_type_hints(annotation)
    return {}


def _inner(annotation: Any, item: str | int) -> list[Any]:
    """The annotations of the entry `item` of a value with this annotation."""
    inner: list[Any] = []
    for each in _flat(annotation):
        if isinstance(item, int):
            inner += get_args(each)[:1] if get_origin(each) in (list, tuple) else []
        elif get_origin(each) is dict:
            inner.append(get_args(each)[1])
        elif item in _fields(each):
            inner.append(_fields(each)[item])
    return inner
