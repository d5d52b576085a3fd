"""The text that hosts compare: what a file sets, and no secret."""

from __future__ import annotations

import pytest

from topology.file.load import load_topology, parse_topology, shipped_topology
from topology.shared_file.canonical import canonical_text, diff_lines

FILE = """\
# a comment
name: two
clusters:
  - name: ewr
    brokers: [{id: 1, host: 10.0.0.1, port: 9092}]
  - {name: nyc, brokers: [{id: 1, host: 10.0.0.2, port: 9092}]}
links:
  - {source: ewr, target: nyc, topics: [flights]}
"""


def test_layout_and_comments_do_not_count() -> None:
    text = canonical_text(parse_topology(FILE))
    other = FILE.replace("# a comment", "").replace(
        "- {source: ewr, target: nyc, topics: [flights]}",
        "- topics:\n      - flights\n    target: nyc\n    source: ewr",
    )
    assert other != FILE
    assert canonical_text(parse_topology(other)) == text
    assert "comment" not in text.partition("\n")[2]


def test_an_edit_is_one_line_of_the_diff() -> None:
    edited = parse_topology(FILE.replace("10.0.0.2, port: 9092", "10.0.0.2, port: 9192"))
    lines = diff_lines(canonical_text(parse_topology(FILE)), canonical_text(edited), "a", "b")
    changed = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert [line.split() for line in changed] == [["-", "port:", "9092"], ["+", "port:", "9192"]]


@pytest.mark.parametrize("name", ["quickstart", "secure", "one-broker", "two-datacenters"])
def test_the_text_of_an_example_is_read_as_the_same_topology(name: str) -> None:
    topology = load_topology(shipped_topology(name))
    text = canonical_text(topology)
    assert parse_topology(text) == topology
    assert canonical_text(parse_topology(text)) == text


def test_the_place_of_a_secret_stays_and_a_secret_goes() -> None:
    topology = parse_topology(FILE)
    cluster = topology.clusters[0].model_copy(
        update={"config": {"listener.name.x.sasl.jaas.config": "user=u password=hunter22"}}
    )
    cluster.model_fields_set.add("config")
    with_secret = topology.model_copy(update={"clusters": [cluster, topology.clusters[1]]})
    text = canonical_text(with_secret)
    assert "jaas.config" in text
    assert "hunter22" not in text
    secure = canonical_text(load_topology(shipped_topology("secure")))
    assert "secure/passwords/broker" in secure
