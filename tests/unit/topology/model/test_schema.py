"""The published schema is the model's, and the example files name it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from topology.file.load import shipped_topology
from topology.model.topology import schema_text

CONFIGS = Path(__file__).resolve().parents[4] / "configs"


def test_the_committed_schema_is_the_models() -> None:
    committed = (CONFIGS / "topology.schema.json").read_text()
    assert committed == schema_text(), "run: heliograph schema > configs/topology.schema.json"


def test_every_key_has_its_sentence() -> None:
    schema = json.loads(schema_text())
    entries = {"Topology": schema, **schema["$defs"]}
    bare = [
        f"{name}.{key}"
        for name, entry in entries.items()
        for key, field in entry["properties"].items()
        if "description" not in field
    ]
    assert bare == []
    assert all(entry["additionalProperties"] is False for entry in entries.values())


@pytest.mark.parametrize("file", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_a_shipped_file_names_the_schema_and_says_what_it_shows(file: Path) -> None:
    first, *rest = file.read_text().splitlines()
    assert first == "# yaml-language-server: $schema=topology.schema.json"
    assert any(line.startswith("# What it shows:") for line in rest)


def test_the_examples_are_found_from_the_package() -> None:
    assert shipped_topology("quickstart").read_bytes() == (CONFIGS / "quickstart.yaml").read_bytes()


def test_every_key_is_in_the_reference() -> None:
    """Filters and transforms are described in `mirror_maker/README.md`."""
    reference = (CONFIGS.parent / "docs" / "operations" / "topology.md").read_text()
    schema = json.loads(schema_text())
    mirror_makers = {"RecordFilter", "Condition", "KeyTest", "JsonTest", "HeaderValue", "Transform"}
    entries = {"Topology": schema, **schema["$defs"]}
    missing = [
        f"{name}.{key}"
        for name, entry in entries.items()
        if name not in mirror_makers
        for key, field in entry["properties"].items()
        if f"| `{key}` |" not in reference
        or " ".join(field["description"].split()) not in reference
    ]
    assert missing == []
