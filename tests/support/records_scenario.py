"""What `heliograph produce` and `consume` do on one broker: ours, or Kafka's."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer

from tests.support.admin_scenario import Commands


def consumed(on: Commands, *arguments: str) -> list[dict[str, Any]]:
    result = on.run("consume", *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def values(on: Commands, *arguments: str) -> list[str]:
    return [each["value"] for each in consumed(on, *arguments)]


def records(on: Commands, tmp_path: Path) -> None:
    on.json("topic", "create", "words", "-p", "2")
    produce = ("produce", "words")
    result = on.run(
        *(*produce, "--key-separator", ":", "-H", "from=test", "-p", "1"), stdin="a:1\nb:2\n"
    )
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == ["wrote 2 records to words", "partition 1: offsets 0..1"]
    first, second = consumed(on, "words")
    assert (first["key"], first["value"], first["headers"]) == ("a", "1", [["from", "test"]])
    assert (second["partition"], second["offset"], second["key"]) == (1, 1, "b")

    _bad_lines(on)
    _places(on)
    _forms(on, tmp_path)
    _refusals(on)


def _bad_lines(on: Commands) -> None:
    """The lines before a bad one are written, and the result says so."""
    document = on.run(
        "produce", "words", "-i", "json", "-o", "json", stdin='{"value": "3"}\n{"v": 1}\n'
    )
    assert document.exit_code == 1
    written = json.loads(document.stdout)
    assert (written["records"], written["line"]) == (1, 2)
    assert "unknown key 'v'" in written["error"]
    dry = on.run("produce", "words", "-p", "7", "--dry-run", stdin="x\n")
    assert (dry.exit_code, "there is no 7" in dry.stdout) == (1, True)
    large = on.run("produce", "words", "-o", "json", stdin="x" * 2_000_000)
    written = json.loads(large.stdout)
    assert (large.exit_code, written["records"], written["line"]) == (1, 0, 1)
    assert "MessageSizeTooLarge" in written["error"] or "MESSAGE_TOO_LARGE" in written["error"]


def _places(on: Commands) -> None:
    on.json("topic", "create", "times")
    on.produce("times", 0, 10)
    begin = consumed(on, "times", "-n", "1")[0]["time"]
    for arguments, expected in {
        ("--from", "8"): [8, 9],
        ("--from=-3",): [7, 8, 9],
        ("--from", "2", "--until", "4"): [2, 3],
        ("-n", "2"): [0, 1],
        ("--from", "end"): [],
        ("--from", begin, "-n", "1"): [0],
    }.items():
        assert [each["offset"] for each in consumed(on, "times", *arguments)] == expected

    one = values(on, "times", "-g", "readers", "-n", "4")
    rest = values(on, "times", "-g", "readers")
    assert (len(one), len(rest)) == (4, 6)
    (group,) = on.json("group", "describe", "readers")["groups"]
    assert (group["state"], group["lag"]) == ("Empty", 0)
    assert values(on, "times", "-g", "late", "--from=-1") == ["v"]


def _forms(on: Commands, tmp_path: Path) -> None:
    on.json("topic", "create", "forms", "-p", "1", "--config", "retention.ms=-1")
    lines = [
        {"key": "k", "value": None, "timestamp_ms": 1},
        {"value": {"a": 1}, "headers": {"h": "x"}},
    ]
    file = tmp_path / "lines.json"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert on.run("produce", "forms", str(file), "-i", "json").exit_code == 0
    shown = on.run("consume", "forms", "--format", "{key}|{value}|{headers}").stdout
    assert shown.splitlines() == ["k|null|", 'null|{"a":1}|h=x'], shown
    (tombstone, _) = consumed(on, "forms")
    assert tombstone["time"] == "1970-01-01T00:00:00.001Z"
    people = on.run("consume", "forms", "-n", "1").stdout.rstrip("\n").split("\t")
    assert people == ["0", "0", "1970-01-01T00:00:00.001Z", "k", "null"]
    yaml = on.run("consume", "forms", "-n", "1", "-o", "yaml").stdout
    assert yaml.startswith("---\ntopic: forms\n")

    on.json("topic", "create", "bytes", "-p", "1")
    hex_line = json.dumps({"value": "00ff"}) + "\n"
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        wrote = on.run(
            *("produce", "bytes", "-i", "json", "--encoding", "hex", "--compression", codec),
            stdin=hex_line,
        )
        assert wrote.exit_code == 0, wrote.output
    assert values(on, "bytes", "--encoding", "hex") == ["00ff"] * 4
    assert values(on, "bytes", "--encoding", "base64", "-n", "1") == ["AP8="]
    assert values(on, "bytes", "-n", "1") == ["\x00\\xff"]


def _refusals(on: Commands) -> None:
    assert "did you mean 'words'?" in on.refusal("consume", "wods")
    assert "no field 'valu'; there are: topic" in on.refusal(
        "consume", "words", "--format", "{valu}", code=2
    )
    assert "--follow or --until" in on.refusal("consume", "words", "-f", "--until", "1", code=2)
    assert "needs the links of a deployment" in on.refusal("consume", "words", "--global", code=2)
    assert "name whole topics" in on.refusal("consume", "words:1", "-g", "g", code=2)
    assert "cannot read" in on.refusal("produce", "words", "/nothing/here", code=2)
    assert "is not NAME=VALUE" in on.refusal("produce", "words", "-H", "x", code=2)


def transactions(on: Commands) -> None:
    """With --committed, aborted records do not show, and reading ends though markers come last."""
    on.json("topic", "create", "money", "-p", "1")

    async def write() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=on.bootstrap, transactional_id="payer")
        await producer.start()
        try:
            for value, is_good in ((b"kept", True), (b"dropped", False)):
                await producer.begin_transaction()
                await producer.send_and_wait("money", value)
                if is_good:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
        finally:
            await producer.stop()

    asyncio.run(write())
    assert values(on, "money") == ["kept", "dropped"]
    assert values(on, "money", "--committed") == ["kept"]
