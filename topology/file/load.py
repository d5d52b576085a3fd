"""The text of a topology file to a Topology, or to every problem in it.

Guarantees: one call reports all problems of types, names and rules together. An entry that is
invalid by itself hides no problem of other entries.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from local_cluster.client.auth.security import ClientSecurity
from spark_global.values.declaring import Decoding
from topology.file.pydantic_errors import entry_at, finding_of, in_file
from topology.file.yaml_document import NotYaml, YamlDocument
from topology.model import Cluster, Link, Topology, ZooKeeperProcess
from topology.model.http_security import HttpSecurity
from topology.model.security import Security
from topology.model.supervisors import Supervisors
from topology.problems import Finding, InvalidTopology, Location, Problem, key_text
from topology.rules.checks import check_rules
from topology.rules.parts import Parts

EntryT = TypeVar("EntryT", bound=BaseModel)

WHOLE_FILE: Final = key_text(())
"""Key of a problem that concerns no single key."""
ENTRY_DEPTH: Final = len(("clusters", 0))
REPAIRS_MAX: Final = 3
"""Most rounds of removing invalid values from an entry before the rules ignore it."""


def load_topology(path: Path) -> Topology:
    """Return the topology of a file. Raises InvalidTopology with every problem, or OSError."""
    return parse_topology(_read_text(path), file=str(path))


def load_security(path: Path) -> ClientSecurity:
    """Return the `security` settings of a cluster from a file that holds nothing else.

    Raises InvalidTopology with every problem, or OSError.
    """
    whole = "security"
    document = _yaml(_read_text(path, whole), str(path), whole)
    try:
        security = Security.model_validate(document.value)
    except ValidationError as error:
        findings = [finding_of(document.value, details, Security) for details in error.errors()]
    else:
        directory = path.absolute().parent
        at: Location = ("oauth",)
        try:
            if security.oauth is not None:
                security.oauth.login(directory)
            at = ()
            return security.client(directory)
        except ValueError as error:
            findings = [Finding(at, str(error), at_key=bool(at))]
    raise InvalidTopology(str(path), [_problem(document, each, whole) for each in findings])


def load_decoding(path: Path) -> Decoding:
    """Return the decoding of a file. Relative paths in it begin at its directory.

    Raises InvalidTopology with every problem, or OSError.
    """
    whole = "decoding"
    document = _yaml(_read_text(path, whole), str(path), whole)
    try:
        decoding = TypeAdapter(Decoding).validate_python(document.value)
    except ValidationError as error:
        findings = [finding_of(document.value, details, Decoding) for details in error.errors()]
        raise InvalidTopology(
            str(path), [_problem(document, each, whole) for each in findings]
        ) from None
    return decoding.under(path.absolute().parent)


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
    """Return the topology of a text. Raises InvalidTopology with every problem."""
    document = _yaml(text, file)
    if not isinstance(document.value, dict):
        expected = "a mapping with name and clusters"
        raise InvalidTopology(file, [Problem(1, 1, "topology", expected)])

    topology: Topology | None = None
    findings: list[Finding] = []
    try:
        topology = Topology.model_validate(document.value)
    except ValidationError as error:
        findings += [finding_of(document.value, details) for details in error.errors()]
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
    """Return whether a finding of a rule may only follow from a value that is invalid by itself.

    The invalid value is around the finding, or within it and was hidden from the rule.
    """
    is_within = len(other) > ENTRY_DEPTH and wrong[: len(other)] == other
    return is_within or other[: len(wrong)] == wrong


def _problem(document: YamlDocument, finding: Finding, whole: str = "") -> Problem:
    line, column = document.position(finding.location, at_key=finding.at_key)
    location = (whole, *finding.location) if whole else finding.location
    return Problem(line, column, key_text(location), finding.expected, finding.nearest)


def _valid_parts(value: dict[str, Any]) -> Parts:
    """Return the entries that are valid by themselves, for the rules between them."""
    return Parts(
        zookeepers=_valid_entries(value.get("zookeepers"), ZooKeeperProcess),
        clusters=_valid_entries(value.get("clusters"), Cluster),
        links=_valid_entries(value.get("links"), Link),
        http_security=_valid(value.get("http_security", {}), HttpSecurity),
        supervisors=_valid(value.get("supervisors"), Supervisors),
        zookeeper_names=_names(value.get("zookeepers")),
        cluster_names=_names(value.get("clusters")),
    )


def _valid(value: Any, entry: type[EntryT]) -> EntryT | None:
    try:
        return entry.model_validate(value)
    except ValidationError:
        return None


def _valid_entries(values: Any, entry: type[EntryT]) -> dict[int, EntryT]:
    """Return the valid entries; keys that are invalid by themselves are removed if need be."""
    valid: dict[int, EntryT] = {}
    for index, value in enumerate(values if isinstance(values, list) else []):
        remaining = deepcopy(value)
        for _ in range(REPAIRS_MAX):
            try:
                valid[index] = entry.model_validate(remaining)
                break
            except ValidationError as error:
                if not all(_remove(remaining, details) for details in reversed(error.errors())):
                    break
    return valid


def _remove(root: Any, details: ErrorDetails) -> bool:
    """Remove an invalid value, or the mapping in which a key is missing.

    Returns False if that would shift the entries after it, or leave nothing.
    """
    location = in_file(root, details["loc"], missing=False)
    if not location:
        return False
    parent: Any = root
    for item in location[:-1]:
        parent = entry_at(parent, item)
    last = location[-1]
    if isinstance(parent, list) and isinstance(last, int):
        if any(isinstance(each, dict) for each in parent):
            return False
        del parent[last : last + 1]
    elif isinstance(parent, dict):
        parent.pop(last, None)  # it may have been removed with an entry around it
    return True


def _names(values: Any) -> set[str]:
    if not isinstance(values, list):
        return set()
    names = (value.get("name") for value in values if isinstance(value, dict))
    return {name for name in names if isinstance(name, str)}
