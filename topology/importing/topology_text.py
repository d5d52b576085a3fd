"""A topology as the YAML text of a file, with a comment for each key that did not carry over. Pure.

Guarantees: `parse_topology` of the text returns the same topology.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, Final

from ruamel.yaml import YAML

from topology.file.property_keys import Remark
from topology.model import Topology

WIDTH_CHARS: Final = 100


def topology_document(topology: Topology) -> dict[str, Any]:
    """Return a topology as plain values, without keys that have their default."""
    document = topology.model_dump(mode="json", exclude_defaults=True)
    return {"name": topology.name, **document}


def topology_text(topology: Topology, remarks: Iterable[Remark], source: str) -> str:
    """Return the text of a topology file. `source` names the file that it was read from."""
    lines = [f"Imported from {source}."]
    lines += [f"Line {each.line}, {each.key}: {each.text}." for each in remarks]
    # A key of the other file may hold any character, and a comment is one line.
    comments = [f"# {' '.join(line.split())}\n" for line in lines]
    out = io.StringIO()
    yaml = YAML()
    yaml.width = WIDTH_CHARS
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(topology_document(topology), out)
    return "".join(comments) + out.getvalue()
