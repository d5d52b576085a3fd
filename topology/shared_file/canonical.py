"""A topology as the text that hosts compare: in one order, without comments and secrets. Pure.

A file names the places of its secrets, which stay. The value of a config that may be a secret is
replaced, so two files that differ only in it are the same here.
"""

from __future__ import annotations

import difflib
import hashlib

from topology.doctor.redact import redact_document
from topology.model import Topology
from topology.rendering.yaml_text import yaml_text

COMMENT = "A topology as its hosts share it, without comments and secrets."


def canonical_text(topology: Topology) -> str:
    """Return the text of what the file sets; `parse_topology` reads it.

    Keys that the file leaves out are left out, so versions with other defaults agree on it.
    """
    document = topology.model_dump(mode="json", exclude_unset=True)
    return yaml_text(COMMENT, redact_document(document, ()))


def digest_of(text: str) -> str:
    """Return the digest by which texts are compared."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def diff_lines(before: str, after: str, before_name: str, after_name: str) -> list[str]:
    """Return a unified diff of two texts, without line ends."""
    lines = (before.splitlines(), after.splitlines())
    return list(difflib.unified_diff(*lines, before_name, after_name, lineterm=""))
