"""`heliograph trace`: the way of one record over two links, and its spans."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.support.heliograph_command import HeliographCommand
from tests.support.quiet_ports import quiet_ports
from tests.support.span_files import SpanFile

pytestmark = pytest.mark.real

WAIT_S = 60.0
TOPOLOGY = """\
name: traced
zookeepers: [{{name: zookeeper, port: {0}}}]
clusters:
  - name: jfk
    datacenter: new-york
    brokers: [{{id: 1, port: {1}}}]
  - name: nyc
    kind: aggregate
    datacenter: nyc-all
    brokers: [{{id: 1, port: {2}}}]
  - name: vault
    datacenter: archive
    brokers: [{{id: 1, port: {3}}}]
links:
  - {{source: jfk, target: nyc, topics: [flights], settings: {{trace_batches: true}}}}
  - {{source: nyc, target: vault, topics: [jfk.flights]}}
"""
PRODUCERS_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PRODUCERS_SPAN = "00f067aa0ba902b7"


class Traced(NamedTuple):
    command: HeliographCommand
    spans: SpanFile


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    directory = tmp_path_factory.mktemp("traced")
    command = HeliographCommand(directory)
    command.file.write_text(TOPOLOGY.format(*quiet_ports(4)))
    with pytest.MonkeyPatch.context() as environment:
        spans = SpanFile(directory, environment)
        try:
            command.up()
            command.run("topic", "create", "flights", "-p", "1", "-c", "jfk")
            produce(command, {"value": "a"}, {"value": "b"})
            header = f"00-{PRODUCERS_TRACE}-{PRODUCERS_SPAN}-01"
            produce(command, {"value": "c", "headers": [["traceparent", header]]})
            yield Traced(command, spans)
        finally:
            if command.state_dir.exists():
                command.run("down", "--purge")


def produce(command: HeliographCommand, *records: dict[str, Any]) -> None:
    words = ["produce", "flights", "-c", "jfk", "--input", "json", *command.options]
    done = subprocess.run(
        [sys.executable, "-m", "topology", *words],
        input="".join(f"{json.dumps(each)}\n" for each in records),
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def trace_until_done(traced: Traced, *arguments: str) -> dict[str, Any]:
    """Trace a record until each of its steps is done."""
    deadline_s = time.monotonic() + WAIT_S
    while True:
        document: dict[str, Any] = traced.command.run("trace", *arguments)
        states = [each["state"] for each in document["steps"]]
        if states == ["done"] * 8:
            return document
        assert time.monotonic() < deadline_s, document
        time.sleep(0.5)


def steps_of(document: dict[str, Any]) -> list[tuple[str, str | None, str, int]]:
    return [
        (each["step"], each["link"], each["topic"], each["offset"]) for each in document["steps"]
    ]


def test_a_record_is_followed_from_its_producer_to_both_copies(traced: Traced) -> None:
    trace_until_done(traced, "flights:0:2")  # the links are at the partition's end
    before_ms = time.time_ns() // 1_000_000
    produce(traced.command, {"value": "d"})
    document = trace_until_done(traced, "flights:0:3")
    after_ms = time.time_ns() // 1_000_000
    assert steps_of(document) == [
        ("produced", None, "flights", 3),
        ("committed", None, "flights", 3),
        ("copied", "jfk-nyc", "jfk.flights", 3),
        ("complete", "jfk-nyc", "jfk.flights", 3),
        ("audited", "jfk-nyc", "jfk.flights", 3),
        ("copied", "nyc-vault", "nyc.jfk.flights", 3),
        ("complete", "nyc-vault", "nyc.jfk.flights", 3),
        ("audited", "nyc-vault", "nyc.jfk.flights", 3),
    ]
    produced, committed, copied = document["steps"][:3]
    assert produced["details"]["leader"] == 1 and produced["clock"] == "producer"
    for each in document["steps"]:
        assert before_ms <= each["not_after_ms"] <= after_ms, each
    # The link was at the partition's end before, so both moments have a lower bound as well.
    for each in (committed, copied):
        assert each["not_before_ms"] <= each["not_after_ms"], each
    assert committed["not_after_ms"] <= copied["not_after_ms"]
    assert copied["details"]["batch_offset"] == 3 and copied["details"]["is_identical"]
    assert document["steps"][3]["details"]["aggregate"]["topic"] == "flights"


def test_a_copy_names_the_same_record_and_trace(traced: Traced) -> None:
    by_record = trace_until_done(traced, "flights:0:1")
    for asked in ("jfk.flights:0:1", "nyc.jfk.flights:0:1"):
        by_copy = trace_until_done(traced, asked)
        assert by_copy["record"] == by_record["record"]
        assert by_copy["trace_id"] == by_record["trace_id"]
        assert steps_of(by_copy) == steps_of(by_record)
    assert trace_until_done(traced, "flights:0:0")["trace_id"] != by_record["trace_id"]


def span_of(traced: Traced, span_id: str) -> dict[str, Any]:
    """Return a span; processes that run export theirs every few seconds."""
    deadline_s = time.monotonic() + WAIT_S
    while True:
        found = [each for each in traced.spans.spans() if each["context"]["span_id"] == span_id]
        if found:
            (span,) = found
            return span
        assert time.monotonic() < deadline_s, span_id
        time.sleep(0.2)


def test_spans_join_the_producers_trace_and_the_batch(traced: Traced) -> None:
    document = trace_until_done(traced, "flights:0:2", "--export")
    assert (document["trace_id"], document["parent_span_id"]) == (PRODUCERS_TRACE, PRODUCERS_SPAN)
    count = document["exported_spans"]
    trace_until_done(traced, "flights:0:2", "--export")
    mine = [each for each in traced.spans.spans() if each["name"].split()[0] != "copy"]
    root, *children = mine[-count:]
    assert (root["name"], root["parent_id"]) == ("record flights", f"0x{PRODUCERS_SPAN}")
    assert [each["name"] for each in children] == [
        "produced flights",
        "committed flights",
        "copied jfk.flights",
        "complete jfk.flights",
        "audited jfk.flights",
        "copied nyc.jfk.flights",
        "complete nyc.jfk.flights",
        "audited nyc.jfk.flights",
    ]
    for each in children:
        assert each["context"]["trace_id"] == f"0x{PRODUCERS_TRACE}"
        assert each["parent_id"] == root["context"]["span_id"]
        assert root["start_time"] <= each["start_time"] <= each["end_time"] <= root["end_time"]
    again = [each["context"] for each in mine[-2 * count : -count]]
    assert again == [each["context"] for each in mine[-count:]], (
        "a second export replaces the first"
    )
    (link,) = children[2]["links"]
    batch = span_of(traced, link["context"]["span_id"])
    assert batch["name"] == "copy jfk.flights"
    assert batch["context"]["trace_id"] == link["context"]["trace_id"]
    assert batch["attributes"]["heliograph.source.offset.last"] >= 2
    assert children[5]["links"] == [], "link nyc-vault creates no spans of batches"


def test_people_see_the_way_as_a_table(traced: Traced) -> None:
    trace_until_done(traced, "flights:0:1")
    words = ["trace", "jfk.flights:0:1", "--state-dir", str(traced.command.state_dir)]
    done = subprocess.run(
        [sys.executable, "-m", "topology", *words], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "record jfk.flights-0, offset 1, of nyc"
    assert lines[1] == "  is a copy of flights-0, offset 1, of jfk (new-york)"
    assert lines[2].startswith("trace ")
    assert any("nyc.jfk.flights-0 @1" in line and "mirror" in line for line in lines)


def test_what_cannot_be_traced_is_told(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    command = traced.command
    trace_until_done(traced, "flights:0:0")
    said = command.complain("trace", "flights", code=2)
    assert "'flights' is not TOPIC:PARTITION:OFFSET" in said
    said = command.complain("trace", "flights:0:99")
    assert "not committed yet: the high watermark is" in said
    assert "flights has 1 partitions" in command.complain("trace", "flights:7:0")
    assert "no cluster of a link that answers has a topic 'flits'" in command.complain(
        "trace", "flits:0:0"
    )
    said = command.complain("trace", "flights:0:0", "--cluster", "jfq", code=2)
    assert "did you mean 'jfk'?" in said
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "refusing")
    said = command.complain("trace", "flights:0:0", "--export")
    assert "RefusingExporter did not take the spans" in said
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "nowhere")
    said = command.complain("trace", "flights:0:0", "--export")
    assert "the OpenTelemetry exporter 'nowhere' is not installed" in said


@pytest.mark.long
def test_a_copy_is_traced_while_its_source_is_silent(traced: Traced) -> None:
    """The last one, as it stops the source. The trace is the same, also that of the producer."""
    asked = {offset: trace_until_done(traced, f"flights:0:{offset}") for offset in (1, 2)}
    daemons = traced.command.run("status")["daemons"]
    (broker,) = [each for each in daemons if each["key"] == "broker-jfk-1"]
    os.kill(broker["pid"], signal.SIGSTOP)
    try:
        for offset, before in asked.items():
            document = traced.command.run("trace", f"jfk.flights:0:{offset}")
            assert document["trace_id"] == before["trace_id"]
            assert document["parent_span_id"] == before["parent_span_id"]
            assert document["record"] == before["record"]
            produced, committed, *rest = document["steps"]
            assert (produced["state"], committed["state"]) == ("unknown", "done")
            assert "does not answer" in produced["sentence"]
            assert {each["state"] for each in rest} == {"done"}
            assert any("jfk" in each for each in document["remarks"])
    finally:
        os.kill(broker["pid"], signal.SIGCONT)
