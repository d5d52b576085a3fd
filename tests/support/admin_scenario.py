"""What `heliograph topic|group|config|broker|transaction` do on one broker: ours, or Kafka's.

Each scenario checks tables, JSON and refusals of one noun.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

from local_cluster.client.admin.group_offsets import CommittedOffset, commit_offsets
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from tests.support.producing import produce_to
from topology.main import app

START_MS = int(time.time() - 3600) * 1000
MINUTE_S = 60
"""The time of the first record of a batch; young enough for every retention."""


@dataclass(frozen=True, slots=True)
class Commands:
    """Runs `heliograph` against one cluster."""

    bootstrap: str

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(
            app, [*arguments, "--bootstrap", self.bootstrap], input=stdin, catch_exceptions=False
        )

    def lines(self, *arguments: str, code: int = 0) -> list[list[str]]:
        """The words of each line for people."""
        result = self.run(*arguments)
        assert result.exit_code == code, result.output
        return [line.split() for line in result.stdout.splitlines()]

    def json(self, *arguments: str, code: int = 0) -> Any:
        result = self.run(*arguments, "-o", "json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    def refusal(self, *arguments: str, code: int = 1) -> str:
        """What standard error says; nothing stands in standard output."""
        result = self.run(*arguments)
        assert (result.exit_code, result.stdout) == (code, ""), result.output
        return result.stderr

    def with_client(self, work: Callable[[KafkaClient], Awaitable[Any]]) -> Any:
        async def call() -> Any:
            async with KafkaClient(self.bootstrap) as client:
                return await work(client)

        return asyncio.run(call())

    def produce(self, topic: str, partition: int, count: int) -> None:
        """Produce records one second apart, from START_MS on."""
        batch = encode_batch(
            [NewRecord(START_MS + 1000 * each, None, b"v") for each in range(count)]
        )
        self.with_client(lambda client: produce_to(client, TopicPartition(topic, partition), batch))

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        positions = {
            TopicPartition(topic, at): CommittedOffset(offset, -1, "")
            for at, offset in offsets.items()
        }
        self.with_client(lambda client: commit_offsets(client, group, positions))


def after_seconds(seconds: int) -> str:
    """The time of a record of `produce`, in the form of the commands."""
    return datetime.fromtimestamp(START_MS / 1000 + seconds, UTC).isoformat()


def states(document: Any) -> list[tuple[str, str]]:
    return [(each["name"], each["state"]) for each in document["changes"]]


def topics(on: Commands) -> None:
    planned = on.json("topic", "create", "orders", "-p", "2", "--dry-run")
    assert (planned["dry_run"], states(planned)) == (True, [("orders", "planned")])
    assert on.json("topic", "list", "orders") == {"topics": []}
    refused = on.json("topic", "create", "ok", "bad/name", "--dry-run", code=1)
    assert states(refused) == [("ok", "planned"), ("bad/name", "refused")]
    assert refused["changes"][1]["error"] == "INVALID_TOPIC_EXCEPTION"

    created = on.lines("topic", "create", "orders", "-p", "2", "--config", "retention.ms=-1")
    assert created == [["done:", "create", "topic", "orders:", "2", "partitions"]]
    assert "TOPIC_ALREADY_EXISTS" in on.run("topic", "create", "orders").stdout
    assert on.json("topic", "create", "orders", code=1)["changes"][0]["state"] == "refused"
    assert on.json("topic", "create", "orders", "--if-missing")["changes"] == []
    assert "NAME=VALUE" in on.refusal("topic", "create", "x", "--config", "retention.ms", code=2)

    on.produce("orders", 1, 5)
    (row,) = on.json("topic", "list", "or.*")["topics"]
    assert (row["name"], row["partitions"], row["under_replicated"]) == ("orders", 2, 0)
    assert ["orders", "2", "1", "0", "0"] in on.lines("topic", "list")
    assert on.json("topic", "list", "or.*", "--unhealthy") == {"topics": []}
    result = on.run("topic", "list", "or.*", "-o", "yaml")
    assert YAML(typ="safe").load(result.stdout)["topics"] == [row]
    assert "no regular expression" in on.refusal("topic", "list", "(", code=2)

    (topic,) = on.json("topic", "describe", "orders")["topics"]
    assert topic["configs"] == {"retention.ms": "-1"}
    first, second = topic["partition_list"]
    assert (first["log_start_offset"], first["end_offset"]) == (0, 0)
    assert (second["log_start_offset"], second["end_offset"]) == (0, 5)
    assert topic["partition_list"][1]["size_bytes"] > 0
    assert ["config", "retention.ms=-1"] in on.lines("topic", "describe", "orders")
    unknown = on.refusal("topic", "describe", "order")
    assert "UNKNOWN_TOPIC_OR_PARTITION; did you mean 'orders'?" in unknown

    altered = on.lines("topic", "alter", "orders", "-p", "3", "--dry-run")
    assert altered == [["planned:", "alter", "topic", "orders:", "2", "->", "3", "partitions"]]
    assert states(on.json("topic", "alter", "orders", "-p", "3")) == [("orders", "done")]
    refused = on.json("topic", "alter", "orders", "-p", "1", "--dry-run", code=1)
    assert refused["changes"][0]["error"] == "INVALID_PARTITIONS"


def trimming(on: Commands) -> None:
    on.json("topic", "create", "trimmed", "-p", "2")
    on.produce("trimmed", 0, 10)
    planned = on.json("topic", "trim", "trimmed", "--before", "4", "--dry-run")
    (change,) = planned["changes"]  # the empty partition has nothing to trim
    assert (change["name"], change["detail"]) == ("trimmed-0", "offsets 0..3")
    assert "confirm it with --yes" in on.refusal(
        "topic", "trim", "trimmed", "--before", "4", code=2
    )
    assert "there is no 7" in on.refusal("topic", "trim", "trimmed:7", "--before", "4", "--yes")
    assert "name an offset" in on.refusal("topic", "trim", "trimmed", "--before", "+1", code=2)
    assert states(on.json("topic", "trim", "trimmed", "--before", "4", "--yes")) == [
        ("trimmed-0", "done")
    ]
    on.json("topic", "trim", "trimmed:0", "--before", after_seconds(6), "--yes")
    (topic,) = on.json("topic", "describe", "trimmed")["topics"]
    assert topic["partition_list"][0]["log_start_offset"] == 6
    again = on.lines("topic", "trim", "trimmed", "--before", "4", "--yes")
    assert again == [["nothing", "to", "change"]]


def deletion(on: Commands) -> None:
    on.json("topic", "create", "gone-1", "gone-2", "stays")
    assert "confirm it with --yes" in on.refusal("topic", "delete", "gone-1", code=2)
    planned = on.json("topic", "delete", "gone-.", "--regex", "--dry-run")
    assert states(planned) == [("gone-1", "planned"), ("gone-2", "planned")]
    for line in on.lines("topic", "delete", "gone-1", "gone-2", "--dry-run"):
        assert line[:3] == ["planned:", "delete", "topic"]
    assert "topic 'gone-3': UNKNOWN_TOPIC" in on.refusal("topic", "delete", "gone-3", "--yes")
    done = on.json("topic", "delete", "gone-.", "--regex", "--yes")
    assert states(done) == [("gone-1", "done"), ("gone-2", "done")]
    left = [each["name"] for each in on.json("topic", "list", "gone-.|stays")["topics"]]
    assert left == ["stays"]


def groups(on: Commands) -> None:
    on.json("topic", "create", "read", "-p", "2")
    on.produce("read", 0, 10)
    on.produce("read", 1, 3)
    on.commit("readers", "read", {0: 4})
    (row,) = [each for each in on.json("group", "list")["groups"] if each["group"] == "readers"]
    assert row["state"] == "Empty"
    assert on.json("group", "list", "--state", "stable") == {"groups": []}
    (line,) = [each for each in on.lines("group", "list") if each[0] == "readers"]
    assert "Empty" in line
    (group,) = on.json("group", "describe", "readers")["groups"]
    assert (group["state"], group["lag"], group["members"]) == ("Empty", 6, [])
    assert group["lag_seconds"] >= time.time() - START_MS / 1000 - MINUTE_S
    shown = [each for each in on.lines("group", "describe", "readers") if each[:1] == ["read"]]
    assert [[*each[:5], *each[6:]] for each in shown] == [["read", "0", "4", "10", "6", "-"]]
    assert "did you mean 'readers'?" in on.refusal("group", "describe", "reader")

    reset = ("group", "reset", "readers", "--topic", "read")
    planned = on.json(*reset, "--to", "end", "--dry-run")
    details = [(each["name"], each["detail"]) for each in planned["changes"]]
    assert details == [("read-0", "4 -> 10"), ("read-1", "none -> 3")]
    lines = [" ".join(each) for each in on.lines(*reset, "--to", "end", "--dry-run")]
    assert lines[0].startswith("planned: reset") and lines[0].endswith("read-0: 4 -> 10")
    assert "confirm it with --yes" in on.refusal(*reset, "--to", "end", code=2)
    assert "is not `start`" in on.refusal(*reset, "--to", "soon", code=2)
    assert "no committed offset to count from in read-1" in on.refusal(*reset, "--to=-1", "--yes")
    moves = {
        "end": (10, 3),
        "-2": (8, 1),
        "start": (0, 0),
        "+1": (1, 1),
        "2": (2, 2),
        after_seconds(5): (5, 3),
    }
    for to, expected in moves.items():
        on.json(*reset, f"--to={to}", "--yes")
        (group,) = on.json("group", "describe", "readers")["groups"]
        assert tuple(each["committed"] for each in group["partitions"]) == expected, to
    forget = ("group", "forget", "readers", "--topic", "read:1")
    assert "confirm it with --yes" in on.refusal(*forget, code=2)
    assert on.lines(*forget, "--dry-run")[0][:3] == ["planned:", "delete", "offset"]
    assert states(on.json(*forget, "--yes")) == [("read-1", "done")]
    (group,) = on.json("group", "describe", "readers")["groups"]
    assert [each["partition"] for each in group["partitions"]] == [0]
    assert "confirm it with --yes" in on.refusal("group", "delete", "readers", code=2)
    planned = on.lines("group", "delete", "readers", "--dry-run")
    assert planned[0][:4] == ["planned:", "delete", "group", "readers:"]
    assert states(on.json("group", "delete", "readers", "--yes")) == [("readers", "done")]
    assert "there is no group 'readers'" in on.refusal("group", "delete", "readers", "--yes")


def configs(on: Commands) -> None:
    on.json("topic", "create", "tuned")
    describe = ("config", "describe", "topic", "tuned")
    set_ = ("config", "set", "topic", "tuned")
    assert on.lines(*describe) == [["every", "config", "has", "its", "default"]]
    refused = on.json(*set_, "retention.ms=soon", "--dry-run", code=1)
    assert refused["changes"][0]["error"] == "INVALID_CONFIG"
    assert states(on.json(*set_, "retention.ms=5000", "--dry-run")) == [("retention.ms", "planned")]
    assert on.json(*describe)["configs"] == []
    lines = [" ".join(each) for each in on.lines(*set_, "retention.ms=5000", "--dry-run")]
    assert lines == ["planned: set config of topic tuned retention.ms: 5000"]
    on.json(*set_, "retention.ms=5000", "--append", "cleanup.policy=compact")
    shown = {each["name"]: each["value"] for each in on.json(*describe)["configs"]}
    assert shown == {"retention.ms": "5000", "cleanup.policy": "delete,compact"}
    on.json(*set_, "--reset", "retention.ms", "--subtract", "cleanup.policy=compact")
    assert [each["name"] for each in on.json(*describe)["configs"]] == ["cleanup.policy"]
    everything = on.json(*describe, "--all", "--doc")["configs"]
    assert next(each for each in everything if each["name"] == "retention.ms")["documentation"]
    assert "UNKNOWN_TOPIC" in on.refusal("config", "describe", "topic", "nothing-like-it")
    assert "nothing to change" in on.refusal(*set_, code=2)
    assert "in two ways" in on.refusal(*set_, "retention.ms=1", "--reset", "retention.ms", code=2)
    assert "expected an id or `default`" in on.refusal("config", "describe", "broker", "x", code=2)
    on.json("config", "set", "broker", "1", "leader.replication.throttled.rate=2000")
    (own,) = on.json("config", "describe", "broker", "1")["configs"]
    assert (own["name"], own["value"]) == ("leader.replication.throttled.rate", "2000")
    on.json("config", "set", "broker", "1", "--reset", "leader.replication.throttled.rate")
    secret = on.run("config", "set", "broker", "1", "ssl.key.password=hunter2", "--dry-run")
    assert "hunter2" not in secret.output


def brokers(on: Commands) -> None:
    (broker,) = on.json("broker", "list")["brokers"]
    assert (broker["id"], broker["is_controller"], broker["out_of_sync"]) == (1, True, 0)
    assert on.lines("broker", "list")[2][:2] == ["1", broker["host"]]
    found = on.json("broker", "describe", "1")
    assert found["log_dirs"][0]["error"] is None
    assert found["log_dirs"][0]["usable_bytes"] > 0
    place = f"{broker['host']}:{broker['port']},"
    assert on.lines("broker", "describe", "1")[0] == ["broker", "1", "at", place, "rack", "-"]
    assert "there are: 1" in on.refusal("broker", "describe", "7")
    assert on.json("broker", "elect-leaders") == {"changes": [], "dry_run": False}
    assert on.lines("broker", "elect-leaders") == [["nothing", "to", "change"]]
    assert "is not TOPIC" in on.refusal("broker", "elect-leaders", "a:x", code=2)


def transactions(on: Commands, hanging: Callable[[Commands], int]) -> None:
    """`hanging` leaves an open transaction in topic `held`, partition 0, and returns its start."""
    on.json("topic", "create", "held")
    start = hanging(on)
    (row,) = on.json("transaction", "list", "--state", "ongoing")["transactions"]
    assert row["state"] == "Ongoing"
    assert row["transactional_id"] in [each[0] for each in on.lines("transaction", "list")]
    described = on.json("transaction", "describe", row["transactional_id"])
    lines = on.lines("transaction", "describe", row["transactional_id"])
    assert (lines[0][-1], lines[-1]) == ("Ongoing", ["partitions:", "held-0"])
    assert described["partitions"] == ["held-0"]
    (producer,) = on.json("transaction", "producers", "held", "0")["producers"]
    assert producer["transaction_start"] == start
    shown = on.lines("transaction", "producers", "held", "0")[1]
    assert {str(producer["producer_id"]), str(start)} <= {*shown}
    assert "no transactional id" in on.refusal("transaction", "describe", "nobody")
    assert "no partition 9" in on.refusal("transaction", "producers", "held", "9")
    # Its coordinator knows it, so it does not hang.
    assert on.lines("transaction", "hanging", "--older", "0") == [["no", "transaction", "hangs"]]
    assert on.json("transaction", "hanging", "--older", "0") == {"hanging": []}
    abort = ("transaction", "abort", "held", "0")
    wrong = on.refusal(*abort, "--start-offset", str(start + 1), "--yes")
    assert f"open transactions start at: {start}" in wrong
    assert "confirm it with --yes" in on.refusal(*abort, "--start-offset", str(start), code=2)
    planned = on.lines(*abort, "--start-offset", str(start), "--dry-run")
    assert planned[0][:5] == ["planned:", "abort", "transaction", "of", "held-0:"]
    assert states(on.json(*abort, "--start-offset", str(start), "--yes")) == [("held-0", "done")]
    (producer,) = on.json("transaction", "producers", "held", "0")["producers"]
    assert producer["transaction_start"] is None


def open_transaction(on: Commands) -> int:
    """Leave a transaction of aiokafka open in held-0."""
    from aiokafka import AIOKafkaProducer

    async def begin() -> int:
        producer = AIOKafkaProducer(bootstrap_servers=on.bootstrap, transactional_id="left-open")
        await producer.start()
        await producer.begin_transaction()
        sent = await producer.send_and_wait("held", b"v", partition=0)
        # No `stop`: it would abort. The sender's tasks end with the loop.
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        return int(sent.offset)

    return asyncio.run(begin())


def unreachable() -> None:
    """A cluster that does not answer is an error that names it."""
    result = CliRunner().invoke(app, ["topic", "list", "--bootstrap", "127.0.0.1:1"])
    assert result.exit_code == 1
    assert result.stderr.startswith("heliograph: cluster --bootstrap (127.0.0.1:1): ")
