"""JSON Schema of the topology file, for editors.

A file names it in its first line: `# yaml-language-server: $schema=topology.schema.json`.
The copy in `configs/` is written by `heliograph schema > configs/topology.schema.json`, and a
test holds the two equal.
"""

from __future__ import annotations

import json

from topology.model import Topology

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_text() -> str:
    """The schema as JSON text with a final newline."""
    schema = Topology.model_json_schema(mode="validation")
    schema = {"$schema": SCHEMA_DIALECT, **schema, "title": "Heliograph topology"}
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"
